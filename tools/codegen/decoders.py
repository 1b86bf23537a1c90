"""Emits the decode function of one layout: straight-line reads with every length checked.

Adjacent fields of fixed width, together with the length in front of the next variable field, are
read by one `unpack_from`. A compact length is read as its first byte and
continued only when the top bit is set. Reads past the end raise IndexError or struct.error, which
the module's entry point turns into TruncatedError; slices are compared with the end here.
"""

from tools.codegen.classes import default_of
from tools.codegen.code_writer import CodeWriter, LocalNames, formats_size
from tools.codegen.layout import (
    FIXED_FORMATS,
    FIXED_WIDTHS,
    FieldLayout,
    StructLayout,
    element_size_min,
)
from tools.codegen.schema import Message

_RESERVED = ("buf", "pos", "end", "left", "stop", "view", "tag", "size", "limit", "memoryview")


class DecodeEmitter:
    """Writes the decode function of one layout of a message."""

    def __init__(self, writer: CodeWriter, message: Message) -> None:
        """Write into `writer`."""
        self._writer = writer
        self._message = message
        self._names = LocalNames(_RESERVED)
        self._pending: list[tuple[str, str]] = []

    def emit(self, name: str, layout: StructLayout) -> None:
        """Write the function `name(buf, pos)` that returns the message."""
        limit = (
            "REQUEST_ELEMENTS_MAX" if self._message.kind == "request" else "RESPONSE_ELEMENTS_MAX"
        )
        writer = self._writer
        with writer.block(f"def {name}(buf: Buffer, pos: int) -> {layout.class_name}:"):
            writer.line("end = len(buf)")
            if uses_arrays(layout):
                writer.line(f"left = {limit}")
            if uses_records(layout):
                writer.line("view = memoryview(buf)")
            value = self._struct_body(layout)
            writer.line(f"return {value}")
        writer.line()
        writer.line()

    def _struct_body(self, layout: StructLayout) -> str:
        """Read a struct's fields and return the expression that constructs it."""
        values: dict[str, str] = {}
        for field in layout.plain:
            values[field.name] = self._field(field, layout.flexible)
        if layout.flexible:
            values.update(self._tag_section(layout))
        self._flush()
        for absent in layout.absent:
            default = default_of(self._message, absent)
            values[absent.name] = default or "None"
        arguments = [values[field.name] for field in layout.order]
        return f"{layout.class_name}({', '.join(arguments)})"

    def _field(self, field: FieldLayout, flexible: bool) -> str:
        """Read one field and return the name of the local that holds it."""
        name = self._names.new(field.name)
        if field.is_array:
            self._array(name, field, flexible)
        elif field.struct is not None:
            self._nested(name, field)
        elif field.kind in FIXED_FORMATS:
            self._pending.append((FIXED_FORMATS[field.kind], name))
        else:
            self._variable(name, field.kind, field.nullable, flexible)
        return name

    def _flush(self) -> None:
        """Read all pending fields at once."""
        if not self._pending:
            return
        formats = [item for item, _ in self._pending]
        names = [name for _, name in self._pending]
        self._pending = []
        if formats == ["B"]:
            self._writer.line(f"{names[0]} = buf[pos]")
        else:
            comma = "," if len(names) == 1 else ""
            unpacker = self._writer.unpacker(formats)
            self._writer.line(f"{', '.join(names)}{comma} = {unpacker}(buf, pos)")
        self._writer.line(f"pos += {formats_size(formats)}")

    def _length(self, name: str, kind: str, flexible: bool) -> str:
        """Read a length or count, -1 for null, and return its local; pending reads go with it."""
        count = self._names.new(f"{name}_n")
        if not flexible:
            self._pending.append(("h" if kind == "string" else "i", count))
            self._flush()
            return count
        self._pending.append(("B", count))
        self._flush()
        with self._writer.block(f"if {count} > 127:"):
            self._writer.line(f"{count}, pos = read_uvarint(buf, pos - 1)")
        self._writer.line(f"{count} -= 1")
        return count

    def _variable(self, name: str, kind: str, nullable: bool, flexible: bool) -> None:
        """Read a string, bytes or records."""
        writer = self._writer
        count = self._length(name, kind, flexible)
        if nullable:
            annotation = {"string": "str", "bytes": "bytes", "records": "memoryview"}[kind]
            writer.line(f"{name}: {annotation} | None = None")
            with writer.block(f"if {count} >= 0:"):
                self._slice(name, kind, count, flexible, negative=False)
        else:
            self._slice(name, kind, count, flexible, negative=True)

    def _slice(self, name: str, kind: str, count: str, flexible: bool, negative: bool) -> None:
        writer = self._writer
        conditions = [f"{count} < 0"] if negative else []
        conditions.append("stop > end")
        if kind == "string" and flexible:
            conditions.append(f"{count} > STRING_BYTES_MAX")
        writer.line(f"stop = pos + {count}")
        with writer.block(f"if {' or '.join(conditions)}:"):
            writer.line(f'raise length_error("{name}", {count}, pos, end)')
        value = {
            "string": 'str(buf[pos:stop], "utf-8")',
            "bytes": "bytes(buf[pos:stop])",
            "records": "view[pos:stop]",
        }[kind]
        writer.line(f"{name} = {value}")
        writer.line("pos = stop")

    def _nested(self, name: str, field: FieldLayout) -> None:
        """Read a struct in place; a nullable one has a signed byte in front, negative for null."""
        assert field.struct is not None
        writer = self._writer
        if not field.nullable:
            writer.line(f"{name} = {self._struct_body(field.struct)}")
            return
        marker = self._names.new(f"{name}_marker")
        self._pending.append(("b", marker))
        self._flush()
        writer.line(f"{name}: {field.struct.class_name} | None = None")
        with writer.block(f"if {marker} >= 0:"):
            value = self._struct_body(field.struct)
            writer.line(f"{name} = {value}")

    def _array(self, name: str, field: FieldLayout, flexible: bool) -> None:
        writer = self._writer
        count = self._length(name, "array", flexible)
        annotation = self._array_type(field)
        if not field.nullable:
            self._array_elements(name, count, field, flexible, annotation)
            return
        writer.line(f"{name}: {annotation} | None = None")
        with writer.block(f"if {count} >= 0:"):
            self._array_elements(name, count, field, flexible, None)

    def _array_type(self, field: FieldLayout) -> str:
        if field.struct is not None:
            return f"list[{field.struct.class_name}]"
        element = {"string": "str", "uuid": "bytes", "bytes": "bytes"}.get(field.kind, "int")
        return f"list[{element}]"

    def _array_elements(
        self, name: str, count: str, field: FieldLayout, flexible: bool, annotation: str | None
    ) -> None:
        """Check the count against the bytes left and the element budget, then read elements."""
        writer = self._writer
        width = element_size_min(field, flexible)
        scaled = count if width == 1 else f"{count} * {width}"
        writer.line(f"left -= {count}")
        with writer.block(f"if {count} < 0 or {scaled} > end - pos or left < 0:"):
            writer.line(f'raise length_error("{name}", {scaled}, pos, end)')
        target = f"{name}: {annotation}" if annotation else name
        if field.kind in FIXED_FORMATS and field.kind != "uuid":
            code = FIXED_FORMATS[field.kind]
            writer.line(f'{target} = list(unpack_from(f">{{{count}}}{code}", buf, pos))')
            writer.line(f"pos += {scaled}")
            return
        writer.line(f"{target} = []")
        with writer.block(f"for _ in range({count}):"):
            if field.struct is not None:
                value = self._struct_body(field.struct)
            elif field.kind == "uuid":
                value = f"bytes(buf[pos : pos + {FIXED_WIDTHS['uuid']}])"
            else:
                value = self._names.new(f"{name}_item")
                self._variable(value, field.kind, nullable=False, flexible=flexible)
            writer.line(f"{name}.append({value})")
            if field.kind == "uuid":
                writer.line(f"pos += {FIXED_WIDTHS['uuid']}")

    def _tag_section(self, layout: StructLayout) -> dict[str, str]:
        """Read the tagged fields of a struct: known ones by name, others skipped."""
        writer = self._writer
        count = self._names.new("tags")
        self._pending.append(("B", count))
        self._flush()
        if not layout.tagged:
            with writer.block(f"if {count}:"):
                writer.line(f"pos = skip_tagged_fields(buf, pos, end, {count})")
            return {}
        values = {}
        for field in layout.tagged:
            name = self._names.new(field.name)
            values[field.name] = name
            writer.line(f"{name}{self._tagged_annotation(field)} = {self._tagged_default(field)}")
        with writer.block(f"if {count} > 127:"):
            writer.line(f"{count}, pos = read_uvarint(buf, pos - 1)")
        with writer.block(f"for _ in range({count}):"):
            limit = self._names.new("tag_end")
            writer.line(f"tag, {limit}, pos = read_tag(buf, pos, end)")
            for index, field in enumerate(layout.tagged):
                head = "if" if index == 0 else "elif"
                with writer.block(f"{head} tag == {field.field.tag}:"):
                    self._tagged_value(values[field.name], field)
            with writer.block("else:"):
                writer.line(f"pos = {limit}")
            with writer.block(f"if pos != {limit}:"):
                writer.line(f'raise tag_size_error("{layout.class_name}", tag)')
        return values

    def _tagged_value(self, name: str, field: FieldLayout) -> None:
        """Read a tagged field into the local that already has its default."""
        value = self._field(field, flexible=True)
        self._flush()
        self._writer.line(f"{name} = {value}")

    def _tagged_default(self, field: FieldLayout) -> str:
        return default_of(self._message, field.field)

    def _tagged_annotation(self, field: FieldLayout) -> str:
        if field.is_array:
            return f": Sequence[{self._array_type(field)[5:-1]}]"
        if field.struct is not None:
            return f": {field.struct.class_name} | None"
        return ": str | None" if field.kind == "string" and field.nullable else ""


def uses_records(layout: StructLayout) -> bool:
    """Say whether the layout has a records field anywhere."""
    fields = layout.plain + layout.tagged
    return any(
        field.kind == "records" or (field.struct is not None and uses_records(field.struct))
        for field in fields
    )


def uses_arrays(layout: StructLayout) -> bool:
    """Say whether the layout has an array anywhere."""
    fields = layout.plain + layout.tagged
    return any(
        field.is_array or (field.struct is not None and uses_arrays(field.struct))
        for field in fields
    )
