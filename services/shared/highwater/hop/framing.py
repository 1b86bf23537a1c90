"""Stream messages: a protobuf header, then the payload as the last field, which is never copied.

`header_bytes` (field 1, fixed32) is the length of everything before the payload field, so a
reader parses only the header and slices the payload. A message without payload has no payload
field. The message as a whole is valid protobuf (see partition_service.proto).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from highwater.http2.ports import Buffer

_HEAD: Final = Struct("<BI")
_HEADER_TAG: Final = 0x0D
"""Field 1, wire type 5 (fixed32)."""
_PAYLOAD_TAG: Final = b"\x7a"
"""Field 15, wire type 2 (length-delimited)."""
PLACEHOLDER: Final = 1
"""Not 0, so that protobuf writes field 1; its bytes are then overwritten."""

JOIN_BYTES_MAX: Final = 4 << 10
"""Buffers that are shorter on average are joined: that costs less than passing each to the socket."""

Parts = Buffer | Sequence[Buffer]
"""One message in one or several buffers, which must not change until it has left."""


class HopFramingError(ValueError):
    """The peer sent a message that is not framed as agreed."""


def frame(header: bytes, payload: Sequence[Buffer], payload_bytes: int) -> Parts:
    """Builds one message. `header` is serialised with a `header_bytes` that is not 0.

    Long payload is passed on as it is, short pieces are copied.
    """
    fixed = _HEAD.pack(_HEADER_TAG, len(header))
    if not payload_bytes:
        return b"".join((fixed, header[_HEAD.size :]))
    head = b"".join((fixed, header[_HEAD.size :], _PAYLOAD_TAG, _varint(payload_bytes)))
    if payload_bytes < JOIN_BYTES_MAX * len(payload):
        return b"".join((head, *payload))
    return [head, *payload]


def joined(message: Parts) -> bytes:
    """A message in one buffer."""
    if isinstance(message, bytes | bytearray | memoryview):
        return bytes(message)
    return b"".join(message)


def bytes_of(message: Parts) -> int:
    """A message's length."""
    if isinstance(message, bytes | bytearray | memoryview):
        return len(message)
    return sum(map(len, message))


def split(message: Buffer) -> tuple[memoryview, memoryview]:
    """Returns views of a message's header and payload; the payload may be empty."""
    view = memoryview(message)
    if len(message) < _HEAD.size:
        raise HopFramingError(f"{len(message)} bytes are no stream message")
    tag, header_bytes = _HEAD.unpack_from(message)
    if tag != _HEADER_TAG or not _HEAD.size <= header_bytes <= len(message):
        raise HopFramingError(f"header of {header_bytes} bytes in {len(message)}")
    if header_bytes == len(message):
        return view, view[header_bytes:]
    at = header_bytes + 1
    length = shift = 0
    while True:
        if at >= len(message) or shift > 28:
            raise HopFramingError("the payload's length is cut off")
        byte = message[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if message[header_bytes] != _PAYLOAD_TAG[0] or at + length != len(message):
        raise HopFramingError(f"payload of {length} bytes at {at} in {len(message)}")
    return view[:header_bytes], view[at:]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
