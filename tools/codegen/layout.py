"""The layout of one version of a message on the wire, with all version rules applied.

Versions with equal layouts share their generated functions.
"""

from dataclasses import dataclass

from tools.codegen.schema import Field, Message

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Format characters of the `struct` module for the kinds that have one width."""

FIXED_WIDTHS = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLayout:
    """One field in one version."""

    field: Field
    nullable: bool
    struct: "StructLayout | None"

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.field.name

    @property
    def kind(self) -> str:
        """Primitive or struct name."""
        return self.field.kind

    @property
    def is_array(self) -> bool:
        """Say whether the field is an array."""
        return self.field.is_array


@dataclass(frozen=True, slots=True, kw_only=True)
class StructLayout:
    """One struct in one version: fields on the wire in order, tagged ones by tag, absent ones."""

    class_name: str
    flexible: bool
    plain: tuple[FieldLayout, ...]
    tagged: tuple[FieldLayout, ...]
    absent: tuple[Field, ...]
    order: tuple[Field, ...]


def class_name(message: Message, struct: str) -> str:
    """Name the Python class of a struct: nested ones carry the message's name in front."""
    return message.name if struct == message.name else f"{message.name}{struct}"


def message_layout(message: Message, version: int) -> StructLayout:
    """Apply the version rules to a whole message."""
    return _struct_layout(message, message.name, version)


def _struct_layout(message: Message, struct: str, version: int) -> StructLayout:
    plain: list[FieldLayout] = []
    tagged: list[FieldLayout] = []
    absent: list[Field] = []
    for field in message.structs[struct]:
        if version not in field.versions:
            absent.append(field)
            continue
        layout = FieldLayout(
            field=field,
            nullable=version in field.nullable,
            struct=_struct_layout(message, field.kind, version) if field.is_struct else None,
        )
        (tagged if version in field.tagged else plain).append(layout)
    return StructLayout(
        class_name=class_name(message, struct),
        flexible=version in message.flexible,
        plain=tuple(plain),
        tagged=tuple(sorted(tagged, key=lambda item: item.field.tag or 0)),
        absent=tuple(absent),
        order=message.structs[struct],
    )


def element_size_min(layout: FieldLayout, flexible: bool) -> int:
    """The smallest size of an element of this array; limits a count before allocation."""
    return _kind_size_min(layout.kind, layout.struct, flexible)


def _kind_size_min(kind: str, struct: StructLayout | None, flexible: bool) -> int:
    if struct is not None:
        return max(1, sum(_field_size_min(item, flexible) for item in struct.plain) + flexible)
    if kind in FIXED_WIDTHS:
        return FIXED_WIDTHS[kind]
    if flexible:
        return 1
    return 2 if kind == "string" else 4


def _field_size_min(layout: FieldLayout, flexible: bool) -> int:
    if layout.is_array:
        return 1 if flexible else 4
    if layout.struct is not None and layout.nullable:
        return 1
    return _kind_size_min(layout.kind, layout.struct, flexible)
