"""The base of all generated message modules: their base class, tag sections, error mapping."""

import struct
from collections.abc import Sequence
from typing import Any, Protocol

from highwater.kafka.errors import (
    DecodeError,
    EncodeError,
    InvalidLengthError,
    InvalidValueError,
    TruncatedError,
)
from highwater.kafka.primitives import Buffer, read_uvarint, uvarint

DECODE_FAILURES = (IndexError, struct.error, UnicodeDecodeError)
"""What generated decoders raise when the input is cut off or not UTF-8."""

ENCODE_FAILURES = (AttributeError, TypeError, struct.error, UnicodeEncodeError)
"""What generated encoders raise when a value has the wrong type, is null, or is out of range."""


class RecordsReference(Protocol):
    """Refers to record bytes that are elsewhere, for instance in a segment file."""

    @property
    def length(self) -> int:
        """Number of bytes that will be sent for it."""


Records = bytes | bytearray | memoryview | RecordsReference
"""What a records field may hold; decoding always yields memoryviews into the input."""


class Message:
    """Base of all generated structs, which have slots and are compared by value.

    The attributes are the union of those of all versions; those that a version lacks keep their
    defaults. Sequences may be lists or tuples and compare equal to each other.
    """

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Show every attribute, record bytes by their length."""
        shown = ", ".join(f"{name}={_show(getattr(self, name))}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        """Compare type and all attributes."""
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # The attributes can change.


def _show(value: Any) -> str:
    if isinstance(value, memoryview):
        return f"<{len(value)} bytes>"
    return repr(value)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other)


def records_length(records: Any) -> int:
    """Return the number of bytes that a records field takes."""
    if isinstance(records, bytes | memoryview | bytearray):
        return len(records)
    length: int = records.length
    return length


def join_parts(out: Sequence[Any], marks: Sequence[int]) -> list[Any]:
    """Join the pieces between record sets; each record set stays as the object it is."""
    parts: list[Any] = []
    start = 0
    for mark in marks:
        parts += (b"".join(out[start:mark]), out[mark])
        start = mark + 1
    if start < len(out):
        parts.append(b"".join(out[start:]))
    return parts


def encode_tags(sections: Sequence[tuple[int, bytes]]) -> bytes:
    """Write a tagged field section from (tag, content) pairs, which are in ascending order."""
    parts = [uvarint(len(sections))]
    for tag, content in sections:
        parts += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(parts)


def read_tag(buf: Buffer, pos: int, end: int) -> tuple[int, int, int]:
    """Read a tag and its size; return tag, where its content ends, where the content starts."""
    tag, pos = read_uvarint(buf, pos)
    size, pos = read_uvarint(buf, pos)
    if pos + size > end:
        raise TruncatedError(f"tagged field {tag} of {size} bytes runs past the end")
    return tag, pos + size, pos


def tag_size_error(struct_name: str, tag: int) -> DecodeError:
    """Make the error for a tagged field whose content does not fill its size."""
    return InvalidLengthError(f"tag {tag} of {struct_name} does not have the size it says")


def absent_field_error(name: str) -> EncodeError:
    """Make the error for a field that is set but does not exist in this version."""
    return EncodeError(f"field {name} is set but this version does not have it")


def decode_error(name: str, version: int, error: Exception) -> DecodeError:
    """Turn one of DECODE_FAILURES into a DecodeError."""
    if isinstance(error, UnicodeDecodeError):
        return InvalidValueError(f"{name} v{version}: a string is not UTF-8")
    return TruncatedError(f"{name} v{version} ends early: {error}")


def encode_error(name: str, version: int, error: Exception) -> EncodeError:
    """Turn one of ENCODE_FAILURES into an EncodeError."""
    return EncodeError(f"{name} v{version} cannot be encoded: {error}")
