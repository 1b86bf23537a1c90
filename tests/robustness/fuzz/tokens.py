"""A request as a list of typed tokens, so that mutations can break it in many ways."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """The kind of a token's bytes; mutations choose by it."""

    VALUE = "a number, a flag or an id"
    COUNT = "how many elements follow"
    LENGTH = "how many bytes follow"
    BYTES = "the content that a length announced"
    TAG = "the number of a tagged field"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Some bytes of a request. `compact` lengths and counts are unsigned varints of n + 1."""

    kind: Kind
    content: bytes
    compact: bool = False


def uvarint(value: int) -> bytes:
    """An unsigned varint; negative values become the ten bytes that a careless encoder writes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(kind: Kind, value: int, size: int, *, compact: bool = False) -> Token:
    """A token for a number of `size` bytes, or for a compact count or length."""
    if compact:
        return Token(kind=kind, content=uvarint(value + 1), compact=True)
    wrapped = value & ((1 << (8 * size)) - 1)
    return Token(kind=kind, content=wrapped.to_bytes(size, "big"))


def joined(tokens: list[Token]) -> bytes:
    """The bytes of all tokens."""
    return b"".join(token.content for token in tokens)
