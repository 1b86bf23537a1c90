"""Compares bytes and values of every API and version that kafka-python has."""

import importlib
import pkgutil
import uuid
import warnings
from random import Random
from typing import Any

import pytest

from tests.property.kafka.random_messages import Case, all_cases
from tools.codegen.layout import FieldLayout, StructLayout

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol
    from kafka.protocol.api_message import ApiMessage

    for _module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in _module.name and "generate" not in _module.name:
            importlib.import_module(_module.name)

SAMPLES = 4
CLASSES = {cls.__name__: cls for cls in ApiMessage.__subclasses__()}


def speaks_plainly(case: Case) -> bool:
    """Leave out what kafka-python converts: sets of operations, ApiVersions."""
    return case.message.name != "ApiVersionsResponse" and not any(
        field.name.endswith("authorized_operations")
        and case.version in field.versions
        and case.message.kind == "response"
        for fields in case.message.structs.values()
        for field in fields
    )


CASES = [case for case in all_cases() if case.message.name in CLASSES and speaks_plainly(case)]


def assert_same_struct(ours: Any, theirs: Any, layout: StructLayout) -> None:
    for field in layout.plain + layout.tagged:
        assert_same_field(getattr(ours, field.name), getattr(theirs, field.name), field)


def assert_same_field(ours: Any, theirs: Any, field: FieldLayout) -> None:
    if ours is None and field.field.tag is not None:
        return  # A tagged field that was not sent; kafka-python shows its default.
    if ours is None or theirs is None:
        assert (ours or None) == (theirs or None) or not any(ours or b""), field.name
    elif field.is_array and field.struct is not None:
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same_struct(one, other, field.struct)
    elif field.is_array:
        assert [wire(item) for item in ours] == [wire(item) for item in theirs], field.name
    elif field.struct is not None:
        assert_same_struct(ours, theirs, field.struct)
    else:
        assert wire(ours) == wire(theirs), field.name


def wire(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.bytes
    return bytes(value) if isinstance(value, memoryview) else value


def test_the_oracle_has_most_apis() -> None:
    assert len({case.message.name for case in CASES}) > 90


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_bytes_and_values(case: Case) -> None:
    rng = Random(str(case))
    oracle = CLASSES[case.message.name]
    for _ in range(SAMPLES):
        message = case.random(rng)
        data = case.encode(message)
        parsed = oracle.decode(data, version=case.version)
        assert_same_struct(message, parsed, case.layout)
        parsed._header = None
        assert bytes(parsed.encode(version=case.version)) == data
