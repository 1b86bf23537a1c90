"""Variable-length integers and other functions that every generated message module shares.

Functions read from any bytes-like object at a position and return the value with the position
behind it. Reading past the end raises IndexError, which the entry points of the codec turn into
`TruncatedError`; lengths are compared with the end explicitly, because slicing would not fail.

Source: Kafka's protocol guide ("Protocol Primitive Types") and KIP-482 for the compact forms.
"""

from highwater.kafka.errors import InvalidLengthError, InvalidValueError, TruncatedError

Buffer = bytes | bytearray | memoryview
"""What the codec reads from."""

ZERO_UUID = bytes(16)
"""The topic id that means "none". The codec passes UUIDs as their 16 bytes."""

STRING_BYTES_MAX = 32_767
"""Kafka's limit for the UTF-8 form of any string, also where the length is a varint."""

REQUEST_ELEMENTS_MAX = 262_144
"""Array elements in one request, all arrays together. An element can be as small as one byte on
the wire but takes a hundred in memory, so without a limit a frame could grow a hundredfold."""

RESPONSE_ELEMENTS_MAX = 4_194_304
"""Array elements in one response; higher, as the reader chose the broker and trusts it more."""


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes and 32 bits."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF, pos
    raise InvalidValueError("unsigned varint is longer than 5 bytes")


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a zigzag-coded int32."""
    byte = buf[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    raw, pos = read_uvarint(buf, pos)
    return (raw >> 1) ^ -(raw & 1), pos


def read_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Read a zigzag-coded int64 of at most 10 bytes."""
    raw = 0
    for shift in range(0, 70, 7):
        byte = buf[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF_FFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), pos
    raise InvalidValueError("varlong is longer than 10 bytes")


def uvarint(value: int) -> bytes:
    """Write a non-negative integer as an unsigned varint."""
    if value < 0x80:
        return UVARINT_1[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Write an int32 as a zigzag varint."""
    # Lengths of small keys and values: every record that we write has some.
    if 0 <= value < 0x40:
        return UVARINT_1[value << 1]
    if 0 <= value < 0x2000:
        return bytes((value << 1 & 0x7F | 0x80, value >> 6))
    return uvarint(((value << 1) ^ (value >> 31)) & 0xFFFF_FFFF)


def varlong(value: int) -> bytes:
    """Write an int64 as a zigzag varint."""
    return uvarint(((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF)


def skip_tagged_fields(buf: Buffer, pos: int, end: int, count: int) -> int:
    """Skip `count` tagged fields and return the position behind them.

    `count` is the first byte of the section; a byte above 127 means that it continues as a varint.
    Each field takes at least two bytes, so the loop ends with the input whatever the count says.
    """
    if count > 127:
        count, pos = read_uvarint(buf, pos - 1)
    for _ in range(count):
        _tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise TruncatedError("tagged field runs past the end")
    return pos


def length_error(what: str, length: int, pos: int, end: int) -> Exception:
    """Make the error for a length that is negative, past the end, or over a limit.

    For arrays, `length` is the smallest number of bytes that the elements can take.
    """
    if length < 0:
        return InvalidLengthError(f"{what} at {pos} is null or has negative length {length}")
    if length > end - pos:
        return TruncatedError(f"{what} at {pos} needs {length} bytes, only {end - pos} are left")
    return InvalidLengthError(f"{what} at {pos} has length {length}, over the limit")


UVARINT_1 = tuple(bytes((value,)) for value in range(0x80))
"""The one-byte varints, the common case: generated encoders index it."""
