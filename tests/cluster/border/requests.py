"""Requests of every API and version, made of Kafka's schemas and filled with given names.

What a field holds is said by its `entityType` in the schema, or by its name, or by hand
(`tests.cluster.border.by_hand`). A string, id or record set of which nobody says so is an error, so that
a new API, or a new field of an old one, is filled on purpose.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import highwater.kafka
from highwater.gateway.handling.apis import APIS_WITH_OLD_FORMATS
from highwater.kafka.message import Message
from highwater.kafka.message_index import API_MODULES
from tests.cluster.border.names import Names
from tools.codegen.layout import FieldLayout, StructLayout, message_layout
from tools.codegen.schema import Message as Schema
from tools.codegen.schema import load_message

_SCHEMAS = Path(highwater.kafka.__path__[0]) / "schemas"
TIMEOUT_MS = 5_000


class Form(Enum):
    """How the fields beside the names are filled."""

    NAMED = "named"
    """Everything is there, each list with one element."""
    NULL = "null"
    """What may be null is: lists, structs and strings."""
    EMPTY = "empty"
    """The outermost lists are empty."""
    HOLLOW = "hollow"
    """The lists inside others are empty."""
    BLANK = "blank"
    """Ids of members are empty, as of clients that come to a group; some flags are the other way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What a request is filled with."""

    names: Names
    form: Form
    version: int
    node: int
    """The id of a broker that is there."""


FieldPath = tuple[str, ...]

ENTITIES = {
    "topicName": "topic",
    "groupId": "group",
    "transactionalId": "transactional_id",
    "producerId": "producer_id",
}
"""Kafka's `entityType` -> the name that is meant."""

BY_NAME = {
    "topic_id": "topic_id",
    "member_id": "member",
    "group_instance_id": "static_member",
    "generation_id": "generation",
    "generation_id_or_member_epoch": "generation",
    "member_epoch": "generation",
    "producer_epoch": "producer_epoch",
    "v3_and_below_producer_epoch": "producer_epoch",
}
"""A field's name -> the name that is meant, where the schema says nothing."""

_BLANK = {"member_id": "", "group_instance_id": None, "generation_id_or_member_epoch": -1}
"""A member that is not one yet, and offsets of no member."""

_ZEROES = {"bool": False, "float64": 0.0}
_UNSAID = frozenset({"string", "bytes", "uuid", "records"})
"""Kinds of which somebody has to say what they hold."""


@cache
def schemas() -> dict[int, Schema]:
    """The requests of all APIs that are served, by key."""
    loaded = (load_message(path) for path in sorted(_SCHEMAS.glob("*Request.json")))
    found = {schema.api_key: schema for schema in loaded if schema.api_key is not None}
    return {key: found[key] for key in APIS_WITH_OLD_FORMATS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One version of an API that the product serves."""

    api_key: int
    version: int

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"

    @property
    def name(self) -> str:
        return schemas()[self.api_key].name.removesuffix("Request")

    @property
    def newest(self) -> bool:
        return self.version == APIS_WITH_OLD_FORMATS[self.api_key].max_version

    @property
    def layout(self) -> StructLayout:
        return message_layout(schemas()[self.api_key], self.version)

    def names(self) -> set[str]:
        """The attributes of `Names` that its request has fields for, without those that are filled by hand."""
        return {meant for meant in map(_meant, _fields(self.layout)) if meant}

    @property
    def shape(self) -> tuple[int, tuple[str, ...]]:
        """Equal for versions whose requests have the same fields."""
        return self.api_key, tuple(field.name for field in _fields(self.layout))


def all_served() -> list[Served]:
    """Every version of every API in the gateway's table."""
    return [
        Served(api_key=key, version=version)
        for key, api in APIS_WITH_OLD_FORMATS.items()
        for version in range(api.served_from, api.max_version + 1)
    ]


def newest_of_each_shape() -> set[Served]:
    """The newest of all versions whose requests have the same fields."""
    return set({served.shape: served for served in all_served()}.values())


def _fields(layout: StructLayout) -> list[FieldLayout]:
    own = [*layout.plain, *layout.tagged]
    return [*own, *(each for one in own if one.struct for each in _fields(one.struct))]


def _meant(field: FieldLayout) -> str:
    """The attribute of `Names` that the field holds, or an empty string."""
    return ENTITIES.get(field.field.entity) or BY_NAME.get(field.name, "")


class RequestBuilder:
    """Builds requests; notes which entries of the table by hand it used."""

    def __init__(self, by_hand: dict[tuple[int, str], Any]) -> None:
        self._by_hand = by_hand
        self.used: set[tuple[int, str]] = set()

    def build(self, served: Served, filling: Filling) -> Message:
        """The request. KeyError: nobody says what a field holds."""
        return self._struct(served, served.layout, filling, ())

    def _struct(
        self,
        served: Served,
        layout: StructLayout,
        filling: Filling,
        path: FieldPath,
        given: dict[str, Any] | None = None,
    ) -> Message:
        module = importlib.import_module(f"highwater.kafka.messages.{API_MODULES[served.api_key]}")
        values: dict[str, Any] = {}
        for field in (*layout.plain, *layout.tagged):
            if given is not None and field.name in given:
                values[field.name] = self._said(served, field, filling, path, given[field.name])
            else:
                values[field.name] = self._field(served, field, filling, (*path, field.name))
        made: Message = getattr(module, layout.class_name)(**values)
        return made

    def _field(self, served: Served, field: FieldLayout, filling: Filling, path: FieldPath) -> Any:
        form, key = filling.form, (served.api_key, ".".join(path))
        by_hand = key in self._by_hand
        if form is Form.NULL and field.nullable:
            self.used.update({key} if by_hand else ())
            return None
        if field.is_array and form is (Form.EMPTY if len(path) == 1 else Form.HOLLOW):
            self.used.update({key} if by_hand else ())
            return []
        if by_hand:
            self.used.add(key)
            said = self._by_hand[key]
            return self._said(
                served, field, filling, path, said(filling) if callable(said) else said
            )
        if field.struct is not None:
            made = self._struct(served, field.struct, filling, path)
            return [made] if field.is_array else made
        value = _primitive(field, filling)
        return [value] if field.is_array else value

    def _said(
        self, served: Served, field: FieldLayout, filling: Filling, path: FieldPath, value: Any
    ) -> Any:
        """The value; dicts in it become structs."""
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            return value
        assert field.struct is not None
        return [self._struct(served, field.struct, filling, path, each) for each in value]


def _primitive(field: FieldLayout, filling: Filling) -> Any:
    if filling.form is Form.BLANK and field.name in _BLANK:
        return _BLANK[field.name] if field.nullable or _BLANK[field.name] is not None else ""
    meant = _meant(field)
    if meant:
        return getattr(filling.names, meant)
    if field.field.entity == "brokerId" and field.is_array:
        return filling.node
    if field.name.endswith("timeout_ms"):
        return TIMEOUT_MS
    if field.kind in _UNSAID:
        raise KeyError(f"nobody says what {field.name} ({field.kind}) holds")
    default = field.field.default
    if default is None or default == "null":
        return _ZEROES.get(field.kind, 0)
    return default.lower() == "true" if field.kind == "bool" else int(default, 0)
