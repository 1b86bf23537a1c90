"""Emits one Python class per struct: with slots, and a constructor with the schema's defaults."""

from tools.codegen.code_writer import CodeWriter
from tools.codegen.layout import class_name
from tools.codegen.schema import Field, Message

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}
_ZERO_DEFAULTS = {
    "bool": "False",
    "float64": "0.0",
    "uuid": "ZERO_UUID",
    "string": '""',
    "bytes": 'b""',
}


def emit_classes(writer: CodeWriter, message: Message) -> None:
    """Emit the classes of a message, inner ones first."""
    for struct in message.structs:
        _emit_class(writer, message, struct)


def can_be_none(message: Message, field: Field) -> bool:
    """Say whether the attribute may be None: nullable in some version, or a tagged struct."""
    if any(version in field.nullable for version in message.valid.versions()):
        return True
    if field.is_struct and not field.is_array:
        return field.tag is not None
    return field.kind == "records" and message.kind == "request"


def default_of(message: Message, field: Field) -> str:
    """Return the default as a Python expression; "" means a new struct with defaults."""
    if field.is_array:
        return "None" if field.default == "null" else "()"
    if field.is_struct:
        return "None" if field.tag is not None or field.default == "null" else ""
    if field.kind == "records":
        # Java's consumer wants an empty record set, not null, from a broker.
        return 'b""' if message.kind == "response" else "None"
    if field.default is None:
        return _ZERO_DEFAULTS.get(field.kind, "0")
    if field.default == "null":
        return "None"
    match field.kind:
        case "string":
            return f'"{field.default}"'
        case "bool":
            return field.default.capitalize()
        case "float64":
            return str(float(field.default))
    return str(int(field.default, 0))


def python_type(message: Message, field: Field) -> str:
    """Return the annotation of the attribute."""
    kind = field.kind
    base = class_name(message, kind) if field.is_struct else _PYTHON_TYPES.get(kind, "int")
    if field.is_array:
        base = f"Sequence[{base}]"
    return f"{base} | None" if can_be_none(message, field) else base


def _emit_class(writer: CodeWriter, message: Message, struct: str) -> None:
    fields = message.structs[struct]
    with writer.block(f"class {class_name(message, struct)}(Message):"):
        writer.line(f'"""{_docstring(message, struct)}"""')
        writer.line()
        names = ", ".join(f'"{field.name}"' for field in fields)
        writer.line(f"__slots__ = ({names}{',' if len(fields) == 1 else ''})")
        writer.line()
        if not fields:
            return
        with writer.block("def __init__("):
            writer.line("self,")
            for field in fields:
                default = default_of(message, field)
                annotation = python_type(message, field)
                if default == "":
                    annotation, default = f"{annotation} | None", "None"
                writer.line(f"{field.name}: {annotation} = {default},")
        with writer.block(") -> None:"):
            for field in fields:
                value = field.name
                if default_of(message, field) == "":
                    value = f"{class_name(message, field.kind)}() if {value} is None else {value}"
                writer.line(f"self.{field.name} = {value}")
    writer.line()
    writer.line()


def _docstring(message: Message, struct: str) -> str:
    versions = f"versions {message.valid}"
    if struct == message.name:
        return f"Body of {message.name}, {versions}."
    return f"{struct} inside {message.name}, {versions}."
