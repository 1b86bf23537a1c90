"""Emits the encode function of one layout: it appends pieces of bytes to a list.

Adjacent values of fixed width, together with the length in front of the next variable field, are
packed by one `pack`. A compact length below 128 is packed along as one byte. Messages with records
note the position of each record set in the list, so that a caller can send it without copying.
"""

from tools.codegen.classes import can_be_none, default_of
from tools.codegen.code_writer import CodeWriter, LocalNames
from tools.codegen.decoders import uses_records
from tools.codegen.layout import FIXED_FORMATS, FieldLayout, StructLayout
from tools.codegen.schema import Field, Message

_RESERVED = ("message", "out", "marks", "append")


class EncodeEmitter:
    """Writes the encode function of one layout of a message."""

    def __init__(self, writer: CodeWriter, message: Message) -> None:
        """Write into `writer`."""
        self._writer = writer
        self._message = message
        self._names = LocalNames(_RESERVED)
        self._pending: list[tuple[str, str]] = []
        self._append = "append"

    def emit(self, name: str, layout: StructLayout) -> None:
        """Write the function `name(message, out)`, with `marks` too where there are records."""
        writer = self._writer
        marks = ", marks: list[int]" if uses_records(layout) else ""
        with writer.block(f"def {name}(message: Any, out: list[Any]{marks}) -> None:"):
            if layout.plain or layout.flexible:
                writer.line("append = out.append")
                self._struct_body("message", layout)
                self._flush()
            else:
                writer.line("pass")
        writer.line()
        writer.line()

    def _struct_body(self, source: str, layout: StructLayout) -> None:
        if self._message.kind == "request":
            for absent in layout.absent:
                self._refuse_absent(source, absent)
        for field in layout.plain:
            self._field(f"{source}.{field.name}", field, layout.flexible)
        if layout.tagged:
            self._tag_section(source, layout)
        elif layout.flexible:
            self._pending.append(("x", ""))

    def _refuse_absent(self, source: str, field: Field) -> None:
        """Raise when a field that this version lacks is set, unless losing it does no harm."""
        if field.ignorable:
            return
        value = f"{source}.{field.name}"
        default = default_of(self._message, field)
        if default in ("()", '""', "False", 'b""'):
            condition = value
        elif default in ("None", ""):
            condition = f"{value} is not None"
        else:
            condition = f"{value} != {default}"
        if default == "":
            return
        self._flush()
        with self._writer.block(f"if {condition}:"):
            self._writer.line(f'raise absent_field_error("{field.name}")')

    def _field(self, value: str, field: FieldLayout, flexible: bool) -> None:
        if field.is_array:
            self._array(value, field, flexible)
        elif field.struct is not None:
            self._nested(value, field)
        elif field.kind in FIXED_FORMATS:
            self._pending.append((FIXED_FORMATS[field.kind], value))
        elif field.kind == "records":
            self._records(value, field, flexible)
        else:
            self._text(value, field, flexible)

    def _flush(self) -> None:
        """Append all pending values as one piece; "x" packs a zero byte."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        formats = [item for item, _ in pending]
        if set(formats) == {"x"}:
            zeros = "\\0" * len(formats)
            self._writer.line(f'{self._append}(b"{zeros}")')
            return
        packer = self._writer.packer(formats)
        arguments = ", ".join(value for _, value in pending if value)
        self._writer.line(f"{self._append}({packer}({arguments}))")

    def _length(self, count: str, kind: str, flexible: bool) -> None:
        """Append a length or count that the local `count` holds (plus one when compact)."""
        writer = self._writer
        if not flexible:
            self._pending.append(("h" if kind == "string" else "i", count))
            self._flush()
            return
        pending, self._pending = self._pending, []
        if not pending:
            writer.line(
                f"{self._append}(UVARINT_1[{count}] if {count} < 128 else uvarint({count}))"
            )
            return
        with writer.block(f"if {count} < 128:"):
            self._pending = [*pending, ("B", count)]
            self._flush()
        with writer.block("else:"):
            self._pending = pending
            self._flush()
            writer.line(f"{self._append}(uvarint({count}))")

    def _base_name(self, value: str) -> str:
        return value.rpartition(".")[2]

    def _count_of(self, local: str, nullable: bool, flexible: bool, size: str) -> str:
        """Assign the wire form of a length to a new local: -1 or 0 for null."""
        count = self._names.new(f"{local}_n")
        expression = f"{size} + 1" if flexible else size
        if nullable:
            null = "0" if flexible else "-1"
            expression = f"{null} if {local} is None else {expression}"
        self._writer.line(f"{count} = {expression}")
        return count

    def _text(self, value: str, field: FieldLayout, flexible: bool) -> None:
        """Append a string or bytes."""
        writer = self._writer
        local = self._names.new(self._base_name(value))
        encode = ".encode()" if field.kind == "string" else ""
        if not field.nullable:
            writer.line(f"{local} = {value}{encode}")
        elif not encode:
            writer.line(f"{local} = {value}")
        else:
            writer.line(f"{local} = {value}")
            with writer.block(f"if {local} is not None:"):
                writer.line(f"{local} = {local}.encode()")
        count = self._count_of(local, field.nullable, flexible, f"len({local})")
        self._length(count, field.kind, flexible)
        with writer.block(f"if {local}:"):
            writer.line(f"{self._append}({local})")

    def _records(self, value: str, field: FieldLayout, flexible: bool) -> None:
        """Append record bytes, or a reference to them, as a piece of its own."""
        writer = self._writer
        local = self._names.new(self._base_name(value))
        writer.line(f"{local} = {value}")
        size = f"records_length({local})"
        count = self._count_of(local, field.nullable, flexible, size)
        self._length(count, field.kind, flexible)
        with writer.block(f"if {count} > {1 if flexible else 0}:"):
            writer.line("marks.append(len(out))")
            writer.line(f"{self._append}({local})")

    def _nested(self, value: str, field: FieldLayout) -> None:
        assert field.struct is not None
        writer = self._writer
        local = self._names.new(self._base_name(value))
        writer.line(f"{local} = {value}")
        if not field.nullable:
            self._struct_body(local, field.struct)
            return
        self._pending.append(("b", f"-1 if {local} is None else 1"))
        self._flush()
        with writer.block(f"if {local} is not None:"):
            self._struct_body(local, field.struct)
            self._flush()

    def _array(self, value: str, field: FieldLayout, flexible: bool) -> None:
        writer = self._writer
        local = self._names.new(self._base_name(value))
        writer.line(f"{local} = {value}")
        count = self._count_of(local, field.nullable, flexible, f"len({local})")
        self._length(count, "array", flexible)
        if field.kind in FIXED_FORMATS and field.kind != "uuid":
            with writer.block(f"if {local}:"):
                code = FIXED_FORMATS[field.kind]
                writer.line(f'{self._append}(pack(f">{{len({local})}}{code}", *{local}))')
            return
        item = self._names.new(f"{local}_item")
        elements = f"{local} or ()" if field.nullable else local
        with writer.block(f"for {item} in {elements}:"):
            if field.struct is not None:
                self._struct_body(item, field.struct)
            elif field.kind == "uuid":
                self._pending.append((FIXED_FORMATS["uuid"], item))
            else:
                self._element(item, field.kind, flexible)
            self._flush()

    def _element(self, item: str, kind: str, flexible: bool) -> None:
        """Append an array element, string or bytes; it is never null."""
        encoded = self._names.new(f"{item}_bytes")
        encode = ".encode()" if kind == "string" else ""
        self._writer.line(f"{encoded} = {item}{encode}")
        count = self._count_of(encoded, False, flexible, f"len({encoded})")
        self._length(count, kind, flexible)
        self._writer.line(f"{self._append}({encoded})")

    def _tag_section(self, source: str, layout: StructLayout) -> None:
        """Append the tagged fields whose values are not the default, in the order of their tags."""
        writer = self._writer
        self._flush()
        locals_ = []
        for field in layout.tagged:
            local = self._names.new(field.name)
            writer.line(f"{local} = {source}.{field.name}")
            locals_.append((local, field))
        defaults = " and ".join(self._is_default(local, field) for local, field in locals_)
        with writer.block(f"if {defaults}:"):
            writer.line(f'{self._append}(b"\\0")')
        with writer.block("else:"):
            sections = self._names.new("sections")
            writer.line(f"{sections}: list[tuple[int, bytes]] = []")
            for local, field in locals_:
                with writer.block(f"if {self._is_set(local, field)}:"):
                    self._tag_body(local, field, sections)
            writer.line(f"{self._append}(encode_tags({sections}))")

    def _tag_body(self, local: str, field: FieldLayout, sections: str) -> None:
        writer = self._writer
        body = self._names.new(f"{local}_body")
        writer.line(f"{body}: list[Any] = []")
        outer, self._append = self._append, f"{body}.append"
        self._field(local, field, flexible=True)
        self._flush()
        self._append = outer
        writer.line(f'{sections}.append(({field.field.tag}, b"".join({body})))')

    def _is_set(self, local: str, field: FieldLayout) -> str:
        default = default_of(self._message, field.field)
        if default == "None":
            return f"{local} is not None"
        return local if default in ("()", '""', "False") else f"{local} != {default}"

    def _is_default(self, local: str, field: FieldLayout) -> str:
        default = default_of(self._message, field.field)
        if default == "None":
            return f"{local} is None"
        if default in ("()", '""', "False"):
            return f"not {local}"
        assert not can_be_none(self._message, field.field)
        return f"{local} == {default}"
