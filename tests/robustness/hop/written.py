"""Reads all that the product writes on one connection, and asserts that a peer may be sent it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpack import Decoder, HPACKError

from tests.robustness.hop.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_BYTES,
    HEADERS,
    ID_MAX,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Fed,
    Pairs,
)

_CODE_MAX = 0xD
"""Of RFC 9113, section 7."""
_LIST_BYTES_MAX = 16 << 10
"""What gRPC's libraries take; with more they give up the stream, and we the connection."""
_FLAGS = {DATA: END_STREAM, HEADERS: END_STREAM | END_HEADERS, CONTINUATION: END_HEADERS}
_FLAGS |= {SETTINGS: ACK, PING: ACK, RST_STREAM: 0, GOAWAY: 0, WINDOW_UPDATE: 0}


@dataclass(slots=True)
class Heard:
    """One stream as the product has written it."""

    sections: list[Pairs] = field(default_factory=list)
    payload: bytearray = field(default_factory=bytearray)
    ended: bool = False
    resets: list[int] = field(default_factory=list)
    given: int = 0
    """By WINDOW_UPDATE."""

    def messages(self) -> list[bytes]:
        """Raises AssertionError for what is no gRPC message."""
        found, pos, data = [], 0, bytes(self.payload)
        while pos < len(data):
            assert pos + 5 <= len(data), "a prefix that was cut off"
            assert data[pos] == 0, "the product compresses nothing"
            after = pos + 5 + int.from_bytes(data[pos + 1 : pos + 5], "big")
            assert after <= len(data), "a message that was cut off"
            found.append(data[pos + 5 : after])
            pos = after
        return found

    def status(self) -> str:
        """The grpc-status of a response; "" before it is here."""
        fields = dict(self.sections[-1]) if self.sections else {}
        return fields.get(b"grpc-status", b"").decode()


class Written:
    """All frames of one end of one connection; `fed` is what that end was fed until then."""

    def __init__(
        self, fed: Fed, *, client: bool, stream_window: int, connection_window: int
    ) -> None:
        self._fed = fed
        self._client = client
        self._stream_window = stream_window
        self._connection_window = connection_window
        self.streams: dict[int, Heard] = {}
        self.goaways: list[tuple[int, int]] = []
        """(last stream, error code)"""
        self.pings: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.data = 0
        self.highest = 0
        """Of the streams that a client has opened."""
        self.frames = 0
        self._given = 65_535
        self._settings = 0
        self._settings_acked = 0
        self._preface = client
        self._buffer = bytearray()
        self._block: tuple[int, int, bytearray] | None = None
        self._decoder = Decoder(max_header_list_size=_LIST_BYTES_MAX)

    def feed(self, data: bytes) -> None:
        """Raises AssertionError."""
        buffer = self._buffer
        buffer += data
        if self._preface and len(buffer) >= len(PREFACE):
            assert buffer.startswith(PREFACE)
            del buffer[: len(PREFACE)]
            self._preface = False
        pos = 0
        while len(buffer) - pos >= HEADER_BYTES:
            length = int.from_bytes(buffer[pos : pos + 3], "big")
            kind, flags = buffer[pos + 3], buffer[pos + 4]
            number = int.from_bytes(buffer[pos + 5 : pos + 9], "big")
            if pos + HEADER_BYTES + length > len(buffer):
                break
            assert length <= self._fed.frame_bytes_most, f"type {kind} has {length} bytes"
            pos += HEADER_BYTES + length
            self._frame(kind, flags, number, bytes(buffer[pos - length : pos]))
        del buffer[:pos]

    def over(self) -> None:
        """Everything has been written."""
        assert not self._buffer, "the last frame was cut off"
        assert self._block is None, "the last header block was cut off"

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self.frames += 1
        assert number <= ID_MAX
        assert kind in _FLAGS, f"nobody sends type {kind}"
        assert not flags & ~_FLAGS[kind], f"type {kind} with flags {flags:x}"
        assert (kind == SETTINGS and not flags) or self._settings, "SETTINGS come first"
        assert (self._block is not None) == (kind == CONTINUATION), "a header block in one piece"
        if kind in {SETTINGS, PING, GOAWAY}:
            assert not number
            self._of_connection(kind, flags, payload)
        elif kind == WINDOW_UPDATE:
            self._window_update(number, payload)
        else:
            assert number & 1
            self._of_stream(kind, flags, number, payload)

    def _of_connection(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == SETTINGS:
            assert not len(payload) % 6
            if flags & ACK:
                assert not payload
                self._settings_acked += 1
                assert self._settings_acked <= self._fed.settings
            else:
                self._settings += 1
        elif kind == PING:
            assert len(payload) == 8
            if flags & ACK:
                assert payload in self._fed.pings
                self.acked.add(payload)
            else:
                self.pings.add(payload)
        else:
            assert len(payload) >= 8
            last, code = int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big")
            assert code <= _CODE_MAX
            assert not self.goaways or last <= self.goaways[-1][0], "section 6.8: never increased"
            # Servers open no streams; the first GOAWAY of a drain names the highest one.
            assert last <= (0 if self._client else self._fed.highest) or (
                last == ID_MAX and not code
            )
            payload[8:].decode()
            self.goaways.append((last, code))

    def _window_update(self, number: int, payload: bytes) -> None:
        assert len(payload) == 4
        increment = int.from_bytes(payload, "big")
        assert 0 < increment <= ID_MAX
        if not number:
            self._given += increment
            assert self._given - self._fed.data <= self._connection_window
            return
        assert not self._is_idle(number)
        stream = self.streams.setdefault(number, Heard())
        assert not stream.resets, "after RST_STREAM"
        stream.given += increment
        used = self._fed.data_of.get(number, 0)
        assert stream.given - used <= 0, "more than the stream's window"

    def _is_idle(self, number: int) -> bool:
        return number > (self.highest if self._client else self._fed.highest)

    def _of_stream(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._client and kind == HEADERS and number > self.highest:
            assert number == (self.highest + 2 if self.highest else 1)
            self.highest = number
        assert not self._is_idle(number), f"type {kind} on an idle stream"
        stream = self.streams.setdefault(number, Heard())
        if kind == RST_STREAM:
            assert len(payload) == 4
            code = int.from_bytes(payload, "big")
            assert code <= _CODE_MAX
            stream.resets.append(code)
            return
        assert not stream.ended, f"type {kind} after END_STREAM"
        assert not stream.resets, f"type {kind} after RST_STREAM"
        if kind == DATA:
            assert stream.sections, "DATA before HEADERS"
            stream.payload += payload
            self.data += len(payload)
            assert self.data <= self._fed.window, "more than the connection's window"
            window = self._fed.initial_most + self._fed.windows.get(number, 0)
            assert len(stream.payload) <= window, "more than the stream's window"
            stream.ended = bool(flags & END_STREAM)
            return
        if kind == HEADERS:
            self._block = (number, flags, bytearray())
        assert self._block is not None and self._block[0] == number
        self._block[2].extend(payload)
        if flags & END_HEADERS:
            _, first, block = self._block
            self._block = None
            self._section(stream, bytes(block), end=bool(first & END_STREAM))

    def _section(self, stream: Heard, block: bytes, *, end: bool) -> None:
        assert _size_updates(block) <= 2, "RFC 7541, section 4.2: the least and the last one"
        try:
            lines = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise AssertionError("no peer can decode it") from error
        fields: Pairs = [(bytes(name), bytes(value)) for name, value in lines]
        names = {name for name, _ in fields}
        if stream.sections:
            assert end and not self._client, "only a response has trailers"
            assert not any(name.startswith(b":") for name in names)
        else:
            assert (b":method" if self._client else b":status") in names
        stream.sections.append(fields)
        stream.ended = end
        if end and not self._client:
            assert 0 <= int(stream.status()) <= 16
            stream.messages()


def _size_updates(block: bytes) -> int:
    """How many updates of the table's size a block begins with (RFC 7541, section 6.3)."""
    count = pos = 0
    while pos < len(block) and block[pos] & 0xE0 == 0x20:
        count += 1
        long = block[pos] & 0x1F == 0x1F
        pos += 1
        while long:
            long = bool(block[pos] & 0x80)
            pos += 1
    return count
