"""A transport of the loop without a socket, and the bytes of one connection on their way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from hpack import Encoder

from highwater.http2.frames import FRAME_BYTES_LIMIT
from highwater.http2.output import HIGH_WATER_BYTES
from highwater.rpc.transport import CONTROL_BYTES_MAX, Transport
from tests.robustness.hop.frames import Fed, Frame
from tests.robustness.hop.written import Written

TURNS_MAX = 200


class FakeSocket(asyncio.Transport):
    """Takes what the product writes; `closed` and `aborted` say what it did in the end."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        super().__init__()
        self._write = write
        self.closed = False
        self.aborted = False
        self.error: AssertionError | None = None
        """What is wrong with what was written. The product would take it for a bug of its own."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None and low is not None and low < high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            assert not self.closed, "written after the close"
            self._write(bytes(data))
        except AssertionError as error:
            self.error = self.error or error

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed


class Wire:
    """Between the test and one connection of the product."""

    def __init__(self, transport: Transport, fed: Fed, written: Written) -> None:
        self.transport = transport
        self.fed = fed
        self.written = written
        self.socket = FakeSocket(written.feed)
        self._paused = False
        transport.connection_made(self.socket)

    def alive(self) -> bool:
        return not self.socket.closed

    def feed(self, data: bytes) -> None:
        """Receives bytes as one or, if they do not fit, several reads."""
        pos = 0
        while pos < len(data) and self.alive():
            buffer = self.transport.get_buffer(-1)
            assert len(buffer) > 0, "asyncio takes an empty buffer for an error"
            nbytes = min(len(buffer), len(data) - pos)
            buffer[:nbytes] = data[pos : pos + nbytes]
            del buffer
            # Before: what is written may only be an answer to what was there.
            self.fed.feed(data[pos : pos + nbytes])
            self.transport.buffer_updated(nbytes)
            pos += nbytes
            self.check()
            output = self.transport.http2.output
            assert 0 <= output.control_bytes <= min(output.nbytes, CONTROL_BYTES_MAX)
            assert output.nbytes <= HIGH_WATER_BYTES + FRAME_BYTES_LIMIT + CONTROL_BYTES_MAX

    def check(self) -> None:
        """Raises AssertionError for what has been written wrongly."""
        if self.socket.error is not None:
            raise self.socket.error

    async def feed_in_pieces(
        self, data: bytes, chance: random.Random, look: Callable[[], None]
    ) -> None:
        """In reads of any size, with turns of the loop and a slow reader between some of them."""
        sizes = chance.choice(((len(data) or 1,), (1, 9, 10, 500), (1_000, 20_000), (16_384,)))
        pos = 0
        while pos < len(data) and self.alive():
            size = chance.choice(sizes)
            if len(data) - pos > 60_000:
                size = max(size, 1_000)
            self.feed(data[pos : pos + size])
            pos += size
            look()
            roll = chance.random()
            if roll < 0.1:
                await asyncio.sleep(0)
            elif roll < 0.13 and self.alive():
                self.pause(paused=not self._paused)

    def pause(self, *, paused: bool) -> None:
        """The socket takes nothing more, or again."""
        if paused != self._paused:
            self._paused = paused
            if paused:
                self.transport.pause_writing()
            else:
                self.transport.resume_writing()

    async def turns(self, until: Callable[[], bool] | None = None) -> None:
        """Lets tasks run: a few turns, or until something is so."""
        for turn in range(TURNS_MAX):
            self.check()
            if turn >= 4 and (until is None or until()):
                return
            await asyncio.sleep(0)
        assert until is None or until(), "nothing happens any more"

    def lost(self) -> None:
        """The socket is gone. What was complete may still be held for readers that pause."""
        self.transport.connection_lost(None)
        self.check()
        self.written.over()
        http2 = self.transport.http2
        assert http2.streams == 0
        assert not http2.output.frames and not http2.output.nbytes
        assert not http2.output.waiting and not http2.output.relieved

    def why_it_closed(self, *, drains: bool) -> None:
        """A connection that the product has closed: by GOAWAY, and with an error unless drained."""
        assert not self.socket.aborted, self.transport._why
        assert self.written.goaways, "closed without a GOAWAY"
        assert drains or self.written.goaways[-1][1], "closed with NO_ERROR"


def encoded(frames: list[Frame]) -> list[Frame]:
    """Fields become header blocks, which share one dynamic table."""
    encoder = Encoder()
    return [
        frame
        if frame.fields is None
        else frame.with_(payload=encoder.encode(frame.fields), fields=None)
        for frame in frames
    ]
