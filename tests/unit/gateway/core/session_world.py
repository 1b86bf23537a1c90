"""A session whose surroundings the test controls: wire, handler, loop turns, memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.reply import Reply
from highwater.gateway.core.session import Session
from highwater.gateway.core.shared_input import OUTSTANDING_MAX, SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.runtime.clock import boot_ms

PRODUCE, FETCH, METADATA = 0, 1, 3


def request(key: int, number: int, size: int = 16) -> bytes:
    """A frame with its size prefix; `number` is the correlation id."""
    head = key.to_bytes(2, "big", signed=True) + b"\0\x09" + number.to_bytes(4, "big")
    return size.to_bytes(4, "big") + head.ljust(size, b"x")


def number_of(frame: bytes | bytearray) -> int:
    return int.from_bytes(frame[4:8], "big")


class Wire:
    """The socket side of a session; records its calls."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.reading = True
        self.watched = 0
        self.closed: str | None = None
        self.session: Session | None = None

    def send(self, parts: list[Any]) -> None:
        assert self.closed is None, "sent after the end"
        self.sent += parts

    def set_reading(self, reading: bool) -> None:
        assert reading != self.reading, "transports refuse to pause twice"
        self.reading = reading

    def close_when_silent(self) -> None:
        self.watched += 1

    def close(self, reason: str) -> None:
        """As `Connection.close`: later calls do nothing, the loss is reported separately."""
        assert self.session is not None
        self.closed = reason
        self.session.closed = True


class Handler:
    """Records requests; the test answers them. A Produce with an odd version has acks=0."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int]] = []
        self.open: dict[int, tuple[Reply, int]] = {}
        """Correlation id to reply and size."""
        self.silent: dict[int, int] = {}
        """Requests without a reply slot: correlation id to size."""
        self.abandoned: list[int] = []
        self.at_once = False
        """Complete ordinary requests inside the call, as a refusal does."""

    def produce(self, session: Session, frame: bytearray) -> None:
        if frame[-1:] == b"0":
            number = number_of(frame)
            self.started.append(("produce0", number))
            self.silent[number] = len(frame)
        else:
            self._note("produce", session, frame)

    def fetch(self, session: Session, frame: bytearray) -> None:
        self._note("fetch", session, frame)

    def other(self, session: Session, frame: bytearray) -> None:
        self._note("other", session, frame)
        if self.at_once:
            reply, _ = self.open.pop(number_of(frame))
            session.complete(reply, b"%d;" % number_of(frame))

    def _note(self, kind: str, session: Session, frame: bytearray) -> None:
        number = number_of(frame)
        self.started.append((kind, number))
        reply = NotedReply(session, len(frame), number, self, kind)
        session.expect(reply)
        self.open[number] = (reply, len(frame))


class NotedReply(Reply):
    """Reports to the handler that it was abandoned; it can still be completed late."""

    __slots__ = ("handler", "kind", "number")

    def __init__(
        self, session: Session, size: int, number: int, handler: Handler, kind: str
    ) -> None:
        super().__init__(
            {"produce": PRODUCE, "fetch": FETCH}.get(kind, METADATA), size, session.arrived_ns
        )
        self.number = number
        self.kind = kind
        self.handler = handler

    def abandon(self) -> None:
        self.handler.abandoned.append(self.number)


class FileRange:
    """A part that counts how often it is released."""

    def __init__(self, length: int = 10) -> None:
        self.fd, self.position, self.length = -1, 0, length
        self.released = 0

    def release(self) -> None:
        self.released += 1


class World:
    """One loop, one budget, and sessions."""

    def __init__(
        self,
        *,
        budget_bytes: int = 1 << 20,
        frame_bytes_max: int = 1 << 20,
        in_flight_bytes_max: int = 1 << 20,
        fetches_max: int = OUTSTANDING_MAX,
    ) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.budget = MemoryBudget(budget_bytes)
        self.shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(self.soon.append, time.monotonic_ns),
            budget=self.budget,
            meters=RequestMeters(),
            frame_bytes_max=frame_bytes_max,
            in_flight_bytes_max=in_flight_bytes_max,
            fetches_max=fetches_max,
        )

    def connect(self) -> Peer:
        return Peer(self)

    def run(self) -> None:
        """Run the callbacks that are due, for a limited number of turns."""
        for _ in range(1000):
            if not self.soon:
                return
            self.soon.popleft()()
        raise AssertionError("the loop never comes to rest")


class Peer:
    """A session, and the bytes that its client has sent and it has not read yet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.wire = Wire()
        self.handler = Handler()
        self.session = Session(
            shared=world.shared, handler=self.handler, wire=self.wire, client=None
        )
        self.wire.session = self.session
        self.unread = b""
        self.lost = False

    def feed(self, data: bytes, at_most: int | None = None) -> None:
        """Send bytes; the session reads while it wants to, at most `at_most` at a time."""
        self.unread += data
        while self.unread and self.wire.reading and self.wire.closed is None and not self.lost:
            buffer = self.session.get_buffer(-1)
            n = min(len(buffer), len(self.unread), at_most or len(self.unread))
            assert n > 0
            buffer[:n] = self.unread[:n]
            self.unread = self.unread[n:]
            self.session.buffer_updated(n)
            self.world.shared.buffer[:] = b"\xee" * len(self.world.shared.buffer)

    def answer(self, number: int, parts: Any = None) -> None:
        """Complete an open request."""
        if number in self.handler.silent:
            self.session.finished(self.handler.silent.pop(number))
            return
        reply, _ = self.handler.open.pop(number)
        complete = self.session.complete_fetch if reply.kind == "fetch" else self.session.complete
        complete(reply, b"%d;" % number if parts is None else parts)

    def lose(self) -> None:
        """Lose the connection."""
        self.lost = True
        self.session.connection_closed()

    @property
    def text(self) -> str:
        return b"".join(self.wire.sent).decode()

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.handler.started]
