"""The layout of frames and the control frames that we send (RFC 9113, sections 4 and 6).

A frame's header has 9 bytes: length (3), type (1), flags (1), stream identifier (4). It is read as
one word of length << 8 | type, because a word of 4 bytes costs least to unpack.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first (section 3.4)."""

FRAME_HEADER: Final = Struct(">IBI")
FRAME_HEADER_BYTES: Final = 9
SETTING: Final = Struct(">HI")
UINT32: Final = Struct(">I")

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20

STREAM_ID_MAX: Final = (1 << 31) - 1
"""31 bits; the highest one is reserved and ignored."""
FRAME_BYTES_MIN: Final = 1 << 14
"""What every peer takes: the initial SETTINGS_MAX_FRAME_SIZE, which is also the least one."""
FRAME_BYTES_LIMIT: Final = (1 << 24) - 1
GOAWAY_WORDS_MAX: Final = 200
"""Characters of debug data that are sent, and looked at: a frame of them fits every peer."""


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return FRAME_HEADER.pack(len(payload) << 8 | kind, flags, stream_id) + payload


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)


def settings_frame(settings: Iterable[tuple[int, int]]) -> bytes:
    """SETTINGS with (identifier, value) pairs."""
    return frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*setting) for setting in settings))


def ping_frame(payload: bytes, *, ack: bool = False) -> bytes:
    """PING; `payload` has 8 bytes."""
    return frame(PING, ACK if ack else 0, 0, payload)


def window_update_frame(stream_id: int, increment: int) -> bytes:
    """WINDOW_UPDATE; stream 0 stands for the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, UINT32.pack(increment))


def reset_frame(stream_id: int, code: int) -> bytes:
    """RST_STREAM."""
    return frame(RST_STREAM, 0, stream_id, UINT32.pack(code))


def goaway_frame(last_stream_id: int, code: int, words: str = "") -> bytes:
    """GOAWAY; the beginning of `words` becomes its debug data."""
    debug_data = words[:GOAWAY_WORDS_MAX].encode()
    payload = UINT32.pack(last_stream_id) + UINT32.pack(code) + debug_data
    return frame(GOAWAY, 0, 0, payload)


def header_frames(
    stream_id: int, block: bytes, frame_bytes_max: int, *, end_stream: bool
) -> Iterator[bytes]:
    """HEADERS and as many CONTINUATION as the block needs; nothing may be sent between them."""
    kind, flags = HEADERS, END_STREAM if end_stream else 0
    while len(block) > frame_bytes_max:
        yield frame(kind, flags, stream_id, block[:frame_bytes_max])
        block, kind, flags = block[frame_bytes_max:], CONTINUATION, 0
    yield frame(kind, flags | END_HEADERS, stream_id, block)
