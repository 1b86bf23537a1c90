"""Loads a message schema file, JSON with comments, into plain values.

The notation is that of Apache Kafka's `clients/src/main/resources/common/message/README.md`.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.codegen.names import snake_case
from tools.codegen.versions import VersionRange

PRIMITIVES = frozenset(
    {"bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}
    | {"uuid", "string", "bytes", "records"}
)
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_NEVER = VersionRange.parse("none")


class SchemaError(ValueError):
    """The schema uses something that the generator does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a struct; `kind` is a primitive's name or that of a struct of the message."""

    name: str
    kind: str
    is_array: bool
    versions: VersionRange
    nullable: VersionRange
    tagged: VersionRange
    tag: int | None
    default: str | None
    ignorable: bool
    entity: str
    """What the value names (Kafka's `entityType`: topicName, groupId, ...); empty if nothing is said."""

    @property
    def is_struct(self) -> bool:
        """Say whether the field, or an element of it, is a struct."""
        return self.kind not in PRIMITIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request, response or data schema with all its structs by name."""

    name: str
    kind: str
    api_key: int | None
    valid: VersionRange
    flexible: VersionRange
    structs: dict[str, tuple[Field, ...]]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the outermost struct."""
        return self.structs[self.name]


def load_message(path: Path) -> Message:
    """Read a schema file."""
    raw = json.loads(_COMMENT.sub("", path.read_text(encoding="utf-8")))
    unordered: dict[str, tuple[Field, ...]] = {}
    for common in raw.get("commonStructs", ()):
        _add_struct(unordered, common["name"], common["fields"])
    _add_struct(unordered, raw["name"], raw["fields"])
    structs: dict[str, tuple[Field, ...]] = {}
    _order_structs(raw["name"], unordered, structs)
    message = Message(
        name=raw["name"],
        kind=raw["type"],
        api_key=raw.get("apiKey"),
        valid=VersionRange.parse(raw["validVersions"]),
        flexible=VersionRange.parse(raw["flexibleVersions"]),
        structs=structs,
    )
    _check(message)
    return message


def _add_struct(
    structs: dict[str, tuple[Field, ...]], name: str, raw_fields: list[dict[str, Any]]
) -> None:
    """Add a struct and those that are defined inside it."""
    fields = []
    for raw in raw_fields:
        field = _field(raw)
        fields.append(field)
        if "fields" in raw:
            _add_struct(structs, field.kind, raw["fields"])
    if name in structs:
        raise SchemaError(f"struct {name} is described twice")
    structs[name] = tuple(fields)


def _order_structs(
    name: str, unordered: dict[str, tuple[Field, ...]], ordered: dict[str, tuple[Field, ...]]
) -> None:
    """Put a struct after those that it contains, so that classes come before their use."""
    for field in unordered.get(name, ()):
        if field.is_struct and field.kind not in ordered:
            _order_structs(field.kind, unordered, ordered)
    if name in unordered:
        ordered[name] = unordered[name]


def _field(raw: dict[str, Any]) -> Field:
    kind = raw["type"]
    is_array = kind.startswith("[]")
    default = raw.get("default")
    return Field(
        name=snake_case(raw["name"]),
        kind=kind.removeprefix("[]"),
        is_array=is_array,
        versions=VersionRange.parse(raw["versions"]),
        nullable=VersionRange.parse(raw.get("nullableVersions", "none")),
        tagged=VersionRange.parse(raw.get("taggedVersions", "none")),
        tag=raw.get("tag"),
        default=None if default is None else str(default),
        ignorable=bool(raw.get("ignorable", False)),
        entity=raw.get("entityType", ""),
    )


def _check(message: Message) -> None:
    for name, fields in message.structs.items():
        for field in fields:
            where = f"{message.name}.{name}.{field.name}"
            if field.is_struct and field.kind not in message.structs:
                raise SchemaError(f"{where}: unknown type {field.kind}")
            if field.tagged != _NEVER and (field.kind == "records" or field.tag is None):
                raise SchemaError(f"{where}: unsupported tagged field")
            single_struct = field.is_struct and not field.is_array
            if field.tagged != _NEVER and single_struct and field.nullable != _NEVER:
                raise SchemaError(f"{where}: a nullable tagged struct is not supported")
