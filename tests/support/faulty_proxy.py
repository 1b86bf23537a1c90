"""A TCP proxy that delays bytes and breaks connections in the middle of frames.

TCP repairs packets that are lost, doubled or out of order, so services do not see these; they see
pieces that come late and streams that end at any byte. The faults of a connection depend only on a
seed, its number and the byte's position, not on how the kernel cuts the stream. Before `disturb` and
after `calm` all bytes pass unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Address = tuple[str, int]
_Taker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

DELAY_S_MAX = 0.1
DELAYED_SHARE = 0.2
"""Shares of the pieces; the others pass at once."""
PIECE_BYTES_MAX = 16 * 1024
CUT_BYTES = (1 << 10, 8 << 20)
"""Bytes until a direction is cut, log-uniform: small numbers are as likely as large ones."""
CONNECTIONS_MAX = 1_000
"""Connections at a time; more are closed."""
_CUTS_KEPT_MAX = 1_000
_READ_BYTES = 64 * 1024
_CONNECT_S_MAX = 2.0
_STOP_S_MAX = 10.0
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes that pass together, with a delay in seconds."""

    size: int
    delay_s: float


class Plan:
    """The faults of one direction of one connection: an endless sequence of pieces, and the cut."""

    def __init__(self, seed: int, connection: int, direction: str) -> None:
        self._chance = random.Random(f"{seed}/{connection}/{direction}")
        low, high = CUT_BYTES
        self.cut_at = int(math.exp(self._chance.uniform(math.log(low), math.log(high))))
        """The bytes that pass before the connection is broken."""
        self.resets = self._chance.random() < 0.5
        """True if the ends see a reset, False for an orderly end."""

    def pieces(self) -> Iterator[Piece]:
        while True:
            late = self._chance.random() < DELAYED_SHARE
            yield Piece(
                size=self._chance.randint(1, PIECE_BYTES_MAX),
                delay_s=self._chance.uniform(0, DELAY_S_MAX) if late else 0.0,
            )


class FaultyProxy:
    """From `start` to `stop`, on a thread of its own; every other call may come from any thread."""

    def __init__(self, routes: Mapping[Address, Address]) -> None:
        """`routes` maps addresses to listen at to addresses to connect to."""
        self._routes = dict(routes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="faulty-proxy", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._seed: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        """All connections so far."""
        self.refused = 0
        self.cuts = 0
        self.last_cuts: deque[tuple[int, str, int]] = deque(maxlen=_CUTS_KEPT_MAX)
        """Cuts: the connection's number from 1, the direction, and the bytes before the cut."""
        self.delays = 0

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses that it listens at."""
        return tuple(self._routes)

    def start(self) -> None:
        """Returns when it listens everywhere. Raises OSError."""
        self._thread.start()
        assert self._ready.wait(_STOP_S_MAX), "the proxy does not start"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Closes everything."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # The loop has just ended.
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_S_MAX)
        assert not self._thread.is_alive(), "the proxy does not stop"

    def disturb(self, seed: int) -> None:
        """Begins faults by the seed, also on existing connections."""
        self._seed = seed

    def calm(self) -> None:
        """Ends all faults."""
        self._seed = None

    # Everything below runs on the proxy's thread.

    def _run(self) -> None:
        servers: list[asyncio.Server] = []
        try:
            try:
                for address, target in self._routes.items():
                    opening = asyncio.start_server(self._taker(target), *address, limit=_READ_BYTES)
                    servers.append(self._loop.run_until_complete(opening))
            except OSError as error:
                self._failure = error
            finally:
                self._ready.set()
            if self._failure is None:
                self._loop.run_forever()
        finally:
            for server in servers:
                server.close()
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _taker(self, target: Address) -> _Taker:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._serve(target, reader, writer)
            finally:
                self._tasks.discard(task)
                writer.transport.abort()

        return take

    async def _serve(
        self, target: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._tasks) > CONNECTIONS_MAX:
            self.refused += 1
            return
        self.connections += 1
        number = self.connections
        try:
            async with asyncio.timeout(_CONNECT_S_MAX):
                far_reader, far_writer = await asyncio.open_connection(*target, limit=_READ_BYTES)
        except OSError:  # A TimeoutError is one, too.
            return
        ends = (writer, far_writer)
        for end in ends:
            end.transport.set_write_buffer_limits(0)  # So that `drain` waits until all is sent.
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, far_writer, ends, number, "there"))
                both.create_task(self._pass(far_reader, writer, ends, number, "back"))
        except* OSError:
            pass  # One end has closed; the other is closed below.
        finally:
            far_writer.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, ...],
        number: int,
        direction: str,
    ) -> None:
        """Passes one direction. Raises ConnectionError when the connection is broken."""
        plan: Plan | None = None
        seed: int | None = None
        passed = left = 0
        pieces: Iterator[Piece] = iter(())
        while data := await reader.read(_READ_BYTES):
            begin = 0
            while begin < len(data):
                if self._seed != seed:
                    seed, passed, left = self._seed, 0, 0
                    plan = None if seed is None else Plan(seed, number, direction)
                    pieces = iter(()) if plan is None else plan.pieces()
                if plan is None:
                    writer.write(data[begin:])
                    break
                if left == 0:
                    piece = next(pieces)
                    left = piece.size
                    if piece.delay_s:
                        self.delays += 1
                        await asyncio.sleep(piece.delay_s)
                size = min(left, len(data) - begin, plan.cut_at - passed)
                writer.write(data[begin : begin + size])
                begin, left, passed = begin + size, left - size, passed + size
                if passed == plan.cut_at:
                    self.last_cuts.append((number, direction, passed))
                    await self._cut(writer, ends, resets=plan.resets)
            await writer.drain()
        writer.write_eof()

    async def _cut(
        self,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, ...],
        *,
        resets: bool,
    ) -> None:
        """Breaks the connection; bytes before the cut still arrive."""
        self.cuts += 1
        await writer.drain()
        for end in ends:
            if resets:
                # The kernel drops what it has not sent; the other direction knows the difference.
                sock: socket.socket = end.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()
        raise ConnectionAbortedError("as the seed says")
