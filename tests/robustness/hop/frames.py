"""HTTP/2 frames as the fuzz tests write and read them, apart from the product's own code."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 0x20

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES = 9
ID_MAX = 2**31 - 1
WINDOW_INITIAL = 65_535
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = 4, 5

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame to send. `fields` become the payload when the order of all frames is known."""

    kind: int
    flags: int = 0
    stream: int = 0
    payload: bytes = b""
    fields: Pairs | None = None
    length: int | None = None
    """What the frame's header claims, if not the payload's length."""

    def with_(self, **changes: object) -> Frame:
        return replace(self, **changes)  # type: ignore[arg-type] # Names are checked by `replace`.

    def packed(self) -> bytes:
        length = len(self.payload) if self.length is None else self.length
        return (
            length.to_bytes(3, "big")
            + bytes([self.kind & 255, self.flags & 255])
            + (self.stream & 0xFFFF_FFFF).to_bytes(4, "big")
            + self.payload
        )


def settings(*pairs: tuple[int, int]) -> Frame:
    return Frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in pairs))


def window_update(stream: int, increment: int) -> Frame:
    return Frame(WINDOW_UPDATE, 0, stream, (increment & 0xFFFF_FFFF).to_bytes(4, "big"))


def reset(stream: int, code: int) -> Frame:
    return Frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last: int, code: int, words: bytes = b"") -> Frame:
    return Frame(GOAWAY, payload=last.to_bytes(4, "big") + code.to_bytes(4, "big") + words)


def message(content: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    """A gRPC message with its prefix."""
    size = len(content) if length is None else length
    return bytes([compressed]) + size.to_bytes(4, "big") + content


def literal(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A header block that neither needs nor changes the dynamic table (RFC 7541, 6.2.2)."""
    return b"".join(
        b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value
        for name, value in fields
    )


def integer(value: int, prefix_bits: int, high: int = 0) -> bytes:
    """RFC 7541, section 5.1."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([high | value])
    made = bytearray([high | most])
    value -= most
    while value >= 128:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


@dataclass(slots=True)
class Fed:
    """What the product was fed, cut into frames by the lengths that their headers claim.

    A DATA frame counts from its header on; any other one when all of it is there.
    """

    preface: bool
    """Whether the preface comes first."""
    frames: list[Frame] = field(default_factory=list)
    header_bytes: int = 0
    missing: int = 0
    """Bytes that the last frame lacks, if its header is there."""
    block_of: int = 0
    """The stream whose header block is open."""
    highest: int = 0
    """Of the streams that HEADERS have named."""
    highest_any: int = 0
    window: int = WINDOW_INITIAL
    """Of the connection, without what the product has sent."""
    windows: dict[int, int] = field(default_factory=dict)
    """By stream: the sum of its WINDOW_UPDATE."""
    initial: int = WINDOW_INITIAL
    initial_most: int = WINDOW_INITIAL
    frame_bytes_most: int = 1 << 14
    data: int = 0
    data_of: dict[int, int] = field(default_factory=dict)
    settings: int = 0
    pings: set[bytes] = field(default_factory=set)
    acks: set[bytes] = field(default_factory=set)
    _buffer: bytearray = field(default_factory=bytearray)
    _counted: bool = False

    def feed(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if self.preface:
            if len(buffer) < len(PREFACE):
                return
            del buffer[: len(PREFACE)]
            self.preface = False
        pos = 0
        self.missing = 0
        while len(buffer) - pos >= HEADER_BYTES:
            length = int.from_bytes(buffer[pos : pos + 3], "big")
            number = int.from_bytes(buffer[pos + 5 : pos + 9], "big") & ID_MAX
            kind, flags = buffer[pos + 3], buffer[pos + 4]
            if kind == DATA and not self._counted:
                self._counted = True
                self.data += length
                self.data_of[number] = self.data_of.get(number, 0) + length
            after = pos + HEADER_BYTES + length
            if after > len(buffer):
                self.missing = after - len(buffer)
                break
            self._counted = False
            payload = bytes(buffer[pos + HEADER_BYTES : after])
            pos = after
            self._frame(Frame(kind, flags, number, payload))
        del buffer[:pos]
        self.header_bytes = len(buffer)

    def _frame(self, frame: Frame) -> None:
        self.frames.append(frame)
        kind, number, payload = frame.kind, frame.stream, frame.payload
        if kind <= CONTINUATION:
            self.highest_any = max(self.highest_any, number)
        if kind in {HEADERS, CONTINUATION}:
            self.block_of = 0 if frame.flags & END_HEADERS else number
            if kind == HEADERS:
                self.highest = max(self.highest, number)
        elif kind == WINDOW_UPDATE and len(payload) == 4:
            increment = int.from_bytes(payload, "big") & ID_MAX
            if number:
                self.windows[number] = self.windows.get(number, 0) + increment
            else:
                self.window += increment
        elif kind == SETTINGS and not frame.flags & ACK:
            self.settings += 1
            self._settings(payload)
        elif kind == PING:
            (self.acks if frame.flags & ACK else self.pings).add(payload)

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload) - 5, 6):
            name, value = struct.unpack_from(">HI", payload, at)
            if name == INITIAL_WINDOW_SIZE:
                self.initial = value
                self.initial_most = max(self.initial_most, value)
            elif name == MAX_FRAME_SIZE:
                self.frame_bytes_most = max(self.frame_bytes_most, value)
