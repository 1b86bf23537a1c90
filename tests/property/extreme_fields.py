"""Requests that differ from a valid one in a single field, which has an extreme value.

Built from the schemas. All that differs are values that the codec can write, so each request gets past
the decoder: what a handler makes of it is the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tests.property.kafka.random_messages import Case, all_cases
from tools.codegen.layout import FieldLayout, StructLayout

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_STRINGS = ("", "\0", "grüße-世界-🎈", "x" * 32_767)
_FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, 1e308)

Change = tuple[str, Callable[[Any], None]]
"""A field's path and value, and what sets it in a message."""


def request_cases() -> dict[tuple[int, int], Case]:
    """All requests by API key and version."""
    return {
        (int(case.message.api_key), case.version): case
        for case in all_cases()
        if case.message.kind == "request" and case.message.api_key is not None
    }


def extreme_requests(case: Case, valid: Any) -> Iterator[tuple[str, Any]]:
    """A description and a copy of `valid`, for each field of it and each extreme value."""
    for name, change in _changes(case.layout, valid, lambda message: message, ""):
        changed = deepcopy(valid)
        change(changed)
        yield name, changed


def _changes(
    layout: StructLayout, message: Any, find: Callable[[Any], Any], path: str
) -> Iterator[Change]:
    """`find` finds the counterpart of `message` in a copy of the whole."""
    for field in (*layout.plain, *layout.tagged):
        here = f"{path}.{field.name}"
        present = getattr(message, field.name)
        for value in _values(field, present):
            yield f"{here}={value!r:.40}", _set(find, field.name, value)
        if field.struct is None or present is None:
            continue
        inner = enumerate(present) if field.is_array else [(None, present)]
        for at, one in inner:
            yield from _changes(
                field.struct,
                one,
                _inner(find, field.name, at),
                f"{here}[{'' if at is None else at}]",
            )


def _set(find: Callable[[Any], Any], name: str, value: Any) -> Callable[[Any], None]:
    return lambda whole: setattr(find(whole), name, value)


def _inner(find: Callable[[Any], Any], name: str, at: int | None) -> Callable[[Any], Any]:
    if at is None:
        return lambda whole: getattr(find(whole), name)
    return lambda whole: getattr(find(whole), name)[at]


def _values(field: FieldLayout, present: Any) -> Iterator[Any]:
    if field.nullable:
        yield None
    if field.is_array:
        yield []
        if present:
            yield [*present, *deepcopy(list(present))]
        elif field.struct is None:
            yield from ([value] for value in _scalars(field.kind))
        if present and field.struct is None:
            yield from ([value] for value in _scalars(field.kind))
    elif field.struct is None:
        yield from _scalars(field.kind)


def _scalars(kind: str) -> Iterator[Any]:
    if kind in _BITS:
        half = 1 << (_BITS[kind] - 1)
        yield from (-half, -2, -1, 0, 1, half - 1)
    elif kind == "uint16":
        yield from (0, 65_535)
    elif kind == "string":
        yield from _STRINGS
    elif kind in {"bytes", "records"}:
        yield from (b"", b"\0", b"\xff" * 70_000)
    elif kind == "uuid":
        yield from (bytes(16), b"\xff" * 16)
    elif kind == "bool":
        yield from (False, True)
    elif kind == "float64":
        yield from _FLOATS
