"""HTTP/2 connections without sockets: two joined by bytes, or one that a test talks to in frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hpack import Decoder, Encoder

from highwater.http2.abuse import AbuseLimits
from highwater.http2.connection import Connection
from highwater.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    HEADERS,
    PREFACE,
    SETTINGS,
    SETTINGS_ACK,
    frame,
    settings_frame,
)
from highwater.http2.settings import LocalSettings

REQUEST = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/test.Test/Call"),
    (":authority", "test"),
    ("content-type", "application/grpc"),
]
RESPONSE = [(":status", "200"), ("content-type", "application/grpc")]

Cut = Callable[[int], int]
"""How many of the bytes that are left go into the next read."""


def whole(left: int) -> int:
    """As many as fit."""
    return left


class Heard:
    """Owner and sink of one stream; `events` are merged, so that cuts do not show."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.payload = b""
        self.rooms: list[bytearray] = []
        self.in_place = 0
        """If set, payload is received into memory of up to that many bytes at a time."""
        self.taken_in_place = 0
        self.writable = 0

    def take(self, buffer: bytearray, start: int, end: int) -> None:
        self.payload += buffer[start:end]

    def room(self, nbytes: int) -> memoryview | None:
        if not self.in_place:
            return None
        self.rooms.append(bytearray(min(nbytes, self.in_place)))
        return memoryview(self.rooms[-1])

    def filled(self, nbytes: int) -> None:
        self.taken_in_place += nbytes
        self.payload += self.rooms[-1][:nbytes]

    def on_response(self, status: int, fields: Any) -> None:
        self.events.append(("response", status, fields))

    def on_trailers(self, fields: Any) -> None:
        self.events.append(("trailers", fields))

    def on_remote_end(self) -> None:
        self.events.append(("remote end", len(self.payload)))

    def on_local_end(self) -> None:
        self.events.append(("local end",))

    def on_reset(self, code: int, words: str, *, by_peer: bool) -> None:
        self.events.append(("reset", int(code), by_peer))

    def on_lost(self, words: str, *, unprocessed: bool) -> None:
        self.events.append(("lost", unprocessed))

    def on_writable(self) -> None:
        self.writable += 1

    def memory(self) -> int:
        return len(self.payload)


@dataclass
class End:
    """One connection and what its owner heard."""

    client: bool
    settings: LocalSettings = field(default_factory=LocalSettings)
    limits: AbuseLimits = field(default_factory=AbuseLimits)
    make_heard: Callable[[], Heard] = Heard
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.events: list[Any] = []
        self.heard: dict[int, Heard] = {}
        self.streams: dict[int, Any] = {}
        self.wakes = 0
        self.connection = Connection(
            self, client=self.client, wake=self._wake, settings=self.settings, limits=self.limits
        )
        self.connection.start()

    def _wake(self) -> None:
        self.wakes += 1

    # ---- ConnectionOwner ----

    def on_settings(self) -> None:
        self.events.append("settings")

    def on_request(self, stream: Any, request: Any) -> None:
        self.events.append(("request", stream.id, request.path))
        self.streams[stream.id] = stream
        heard = self.heard[stream.id] = self.make_heard()
        self.connection.adopt(stream, heard, heard)

    def on_ping_ack(self, payload: bytes) -> None:
        self.events.append(("ping ack", payload))

    def on_goaway(self, code: int, words: str) -> None:
        self.events.append(("goaway", code, words))

    def on_stream_closed(self) -> None:
        self.events.append("stream closed")

    def on_closing(self, words: str) -> None:
        self.events.append(("closing", words))

    # ---- what a test does ----

    def open(self, fields: Any = REQUEST) -> tuple[Any, Heard]:
        """A client's stream."""
        heard = self.make_heard()
        stream = self.connection.open_stream(heard, list(fields))
        self.connection.adopt(stream, heard, heard)
        self.heard[stream.id] = heard
        self.streams[stream.id] = stream
        return stream, heard

    def feed(self, data: bytes, cut: Cut = whole) -> None:
        """Receives bytes, in reads of a size that `cut` says."""
        pos = 0
        while pos < len(data) and not self.closed:
            buffer = self.connection.get_buffer()
            assert len(buffer) > 0
            nbytes = min(len(buffer), len(data) - pos, max(cut(len(data) - pos), 1))
            buffer[:nbytes] = data[pos : pos + nbytes]
            self.connection.output.corked = True
            self.connection.buffer_updated(nbytes, self.now_s)
            self.connection.output.corked = False
            pos += nbytes

    def sent(self) -> bytes:
        """What the socket would get now."""
        output = self.connection.output
        data = b"".join(output.take())
        output.corked = False
        output.refill()
        return data

    @property
    def closed(self) -> bool:
        return any(event[0] == "closing" for event in self.events)


def carry(one: End, other: End, cut: Cut = whole) -> None:
    """Lets two ends talk until neither has anything to say."""
    while True:
        ones, others = one.sent(), other.sent()
        if not ones and not others:
            return
        other.feed(ones, cut)
        one.feed(others, cut)


def frames_of(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, stream, payload) of each frame; a preface is skipped."""
    pos = len(PREFACE) if data.startswith(PREFACE) else 0
    while pos < len(data):
        word, flags, number = FRAME_HEADER.unpack_from(data, pos)
        pos += FRAME_HEADER_BYTES
        yield word & 255, flags, number, data[pos : pos + (word >> 8)]
        pos += word >> 8


class RawClient:
    """Talks to a server's end in frames, with an HPACK table of its own."""

    def __init__(self, **options: Any) -> None:
        self.end = End(client=False, **options)
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.end.feed(PREFACE + settings_frame([]) + SETTINGS_ACK)
        self.end.sent()

    def headers(self, number: int, fields: Any = REQUEST, flags: int = END_HEADERS) -> bytes:
        return frame(HEADERS, flags, number, self.encoder.encode(fields))

    def data(self, number: int, payload: bytes, *, end: bool = False) -> bytes:
        return frame(DATA, END_STREAM if end else 0, number, payload)

    def ask(self, data: bytes, cut: Cut = whole) -> list[tuple[int, int, int, bytes]]:
        """Feeds bytes and returns the frames that came back."""
        self.end.feed(data, cut)
        return list(frames_of(self.end.sent()))


class RawServer:
    """The same of a client's end."""

    def __init__(self, **options: Any) -> None:
        self.end = End(client=True, **options)
        self.encoder = Encoder()
        self.end.feed(settings_frame([]) + frame(SETTINGS, ACK, 0))
        self.end.sent()

    def headers(self, number: int, fields: Any = RESPONSE, flags: int = END_HEADERS) -> bytes:
        return frame(HEADERS, flags, number, self.encoder.encode(fields))

    def ask(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        self.end.feed(data)
        return list(frames_of(self.end.sent()))
