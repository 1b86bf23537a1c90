"""Reads the fields of the structs in coordinators' records, as Kafka's generated classes do.

Source: Kafka's protocol guide ("Protocol Primitive Types"), KIP-482 for flexible versions. What a
record's end cuts off raises one of `highwater.kafka.message.DECODE_FAILURES`, or a DecodeError.
"""

from struct import Struct
from typing import Final

from highwater.kafka.errors import InvalidLengthError
from highwater.kafka.primitives import read_uvarint, skip_tagged_fields
from highwater.partition.coordinator.records import UnknownRecordError

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class StructReader:
    """Stands in one key or value, and goes on with each field that is read.

    Strings, bytes and arrays are compact, and structs end with tagged fields, if it is flexible.
    """

    __slots__ = ("_buf", "_flexible", "_pos")

    def __init__(self, buf: bytes, *, flexible: bool = False) -> None:
        """A value that begins with its version says by `value_version` whether it is flexible."""
        self._buf = buf
        self._pos = 0
        self._flexible = flexible

    def value_version(self, newest: int, *, flexible_from: int) -> int:
        """The version that the value begins with; UnknownRecordError if it is above `newest`."""
        version = self.int16()
        if not 0 <= version <= newest:
            raise UnknownRecordError(f"value version {version}")
        self._flexible = version >= flexible_from
        return version

    def int8(self) -> int:
        """A signed byte."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Two bytes, signed."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Four bytes, signed."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Eight bytes, signed."""
        return self._number(_INT64)

    def string(self) -> str:
        """Text that may not be null."""
        text = self.nullable_string()
        if text is None:
            raise InvalidLengthError("null where a string must be")
        return text

    def nullable_string(self) -> str | None:
        """Text or null."""
        length = self._uvarint() - 1 if self._flexible else self.int16()
        return None if length == -1 else self.take(length).decode()

    def octets(self) -> bytes:
        """Bytes that may not be null."""
        return self.take(self.count())

    def count(self) -> int:
        """The length of an array or of bytes, which may not be null."""
        length = self.nullable_count()
        if length < 0:
            raise InvalidLengthError(f"null where an array must be, at {self._pos}")
        return length

    def nullable_count(self) -> int:
        """The same, -1 for null. Every element takes at least one byte, so it has a limit."""
        length = self._uvarint() - 1 if self._flexible else self.int32()
        if not -1 <= length <= len(self._buf) - self._pos:
            raise InvalidLengthError(f"length {length} at {self._pos}")
        return length

    def tags(self) -> dict[int, bytes]:
        """The tagged fields at the end of a struct; none if it is not flexible."""
        if not self._flexible:
            return {}
        return {self._uvarint(): self.take(self._uvarint()) for _ in range(self._uvarint())}

    def end_of_struct(self) -> None:
        """Passes over the tagged fields, of which we know none here."""
        if self._flexible:
            count = self._uvarint()
            self._pos = skip_tagged_fields(self._buf, self._pos, len(self._buf), count)

    def take(self, length: int) -> bytes:
        """So many bytes, whatever they are."""
        end = self._pos + length
        if length < 0 or end > len(self._buf):
            raise InvalidLengthError(f"length {length} at {self._pos}")
        taken = self._buf[self._pos : end]
        self._pos = end
        return taken

    def _uvarint(self) -> int:
        value, self._pos = read_uvarint(self._buf, self._pos)
        return value

    def _number(self, layout: Struct) -> int:
        (value,) = layout.unpack_from(self._buf, self._pos)
        self._pos += layout.size
        return int(value)
