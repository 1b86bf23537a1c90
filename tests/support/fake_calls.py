"""Both ends of a stream without a transport: what `highwater.rpc.ports` promises, by the test's hand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from highwater.hop.framing import joined
from highwater.http2.ports import Buffer
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.ports import Message, ServerCallbacks, StreamHandler, nothing
from highwater.rpc.status import Status, StatusCode

OK = Status(StatusCode.OK)
REFUSED = Status(StatusCode.UNAVAILABLE, "refused")


class Inbox:
    """Messages on their way to a reader, who may pause; those left wait for it."""

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()
        self.paused = False

    def hand_on(self, on_message: Callable[[Message], None]) -> None:
        while self.waiting and not self.paused:
            on_message(self.waiting.popleft())


class FakeCall:
    """A client's call; the test plays its server."""

    def __init__(
        self,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None],
        on_writable: Callable[[], None],
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._on_open = on_open
        self._on_writable = on_writable
        self._inbox = Inbox()
        self.written: list[bytes] = []
        self.is_open = False
        self.takes = True
        """Whether the server's window has room."""
        self.closed = False
        """Half-closed."""
        self.ended: Status | None = None
        self.unsent_bytes = 0

    # ---- the owner's side: ClientStreamCall ----

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        assert not self.closed
        if self.ended is None:
            self.written.append(joined(parts))

    def can_send(self) -> bool:
        return self.is_open and self.takes

    def pause_reading(self) -> None:
        self._inbox.paused = True

    def resume_reading(self) -> None:
        self._inbox.paused = False
        self._inbox.hand_on(self._on_message)

    def half_close(self) -> None:
        self.closed = True

    def cancel(self) -> None:
        self.end(Status(StatusCode.CANCELLED, "the call was cancelled here"))

    # ---- the server's side ----

    @property
    def cancelled(self) -> bool:
        return self.ended is not None and self.ended.code is StatusCode.CANCELLED

    def open(self) -> None:
        if self.ended is None:
            self.is_open = True
            self._on_open()

    def answer(self, message: Message) -> None:
        if self.ended is None:
            self._inbox.waiting.append(message)
            self._inbox.hand_on(self._on_message)

    def make_room(self) -> None:
        self.takes = True
        self._on_writable()

    def end(self, status: Status = OK) -> None:
        if self.ended is None:
            self.ended = status
            self._inbox.waiting.clear()
            self._on_end(status)


class FakeChannel:
    """Keeps its calls, and opens them in the next turn of the loop."""

    def __init__(self, address: str = "", nearby: UnixAddress | None = None) -> None:
        self.address = address
        self.nearby = nearby
        self.connects = True
        self.is_closed = False
        self.calls: list[FakeCall] = []
        self.paths: list[str] = []

    def stream(
        self,
        path: str,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None] = nothing,
        on_writable: Callable[[], None] = nothing,
        **_others: object,
    ) -> FakeCall:
        call = self.make_call(
            on_message=on_message, on_end=on_end, on_open=on_open, on_writable=on_writable
        )
        self.calls.append(call)
        self.paths.append(path)
        asyncio.get_running_loop().call_soon(self._connect, call)
        return call

    def _connect(self, call: FakeCall) -> None:
        if self.connects:
            call.open()
        else:
            call.end(REFUSED)

    def make_call(self, **callbacks: Any) -> FakeCall:
        """For subclasses with other calls."""
        return FakeCall(**callbacks)

    def statistics(self) -> None:
        """As grpcio's."""

    async def close(self) -> None:
        self.is_closed = True
        for call in self.calls:
            call.cancel()

    @property
    def call(self) -> FakeCall:
        """The newest call."""
        return self.calls[-1]


class FakeServerCall:
    """A server's call; the test plays its client."""

    def __init__(self, path: str = "/service/Method") -> None:
        self.path = path
        self.metadata = ()
        self.written: list[bytes] = []
        self.room: int | None = None
        """How many more messages the client's window takes; None for any number."""
        self.status: Status | None = None
        self.reads = 0
        """Messages that were handed on."""
        self._callbacks = ServerCallbacks(on_message=lambda _message: None)
        self._inbox = Inbox()
        self._wanted = False
        self._over = False
        self._half_closed = False

    # ---- the handler's side: ServerStreamCall ----

    @property
    def unsent_bytes(self) -> int:
        return 0

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        assert self.room != 0, "a message that would wait"
        if self.room is not None:
            self.room -= 1
        if self.status is None:
            self.written.append(joined(parts))

    def can_send(self) -> bool:
        self._wanted = self.room == 0
        return not self._wanted

    def pause_reading(self) -> None:
        self._inbox.paused = True

    def resume_reading(self) -> None:
        self._inbox.paused = False
        self._inbox.hand_on(self._take)

    def send_initial_metadata(self, metadata: object = ()) -> None:
        """Nobody looks at them."""

    def finish(
        self, code: StatusCode = StatusCode.OK, details: str = "", metadata: object = ()
    ) -> None:
        if self.status is None:
            self.status = Status(code, details)
            asyncio.get_running_loop().call_soon(self._end)

    def cancel(self) -> None:
        if self.status is None:
            self.status = Status(StatusCode.CANCELLED, "the call was cancelled here")
            self._end()

    # ---- the client's side ----

    def serve(self, handler: StreamHandler) -> None:
        self._callbacks = handler(self)

    def message(self, message: Message) -> None:
        self._inbox.waiting.append(message)
        self._inbox.hand_on(self._take)

    def _take(self, message: Message) -> None:
        if self.status is None:
            self.reads += 1
            self._callbacks.on_message(message)

    def half_close(self) -> None:
        self._half_closed = True
        if self.status is None:
            self._callbacks.on_half_close()

    def stall(self) -> None:
        """The client reads nothing more."""
        self.room = 0

    def make_room(self, messages: int | None = None) -> None:
        """The client reads again: all that comes, or a number of messages."""
        self.room = messages
        if self._wanted and self.status is None:
            self._wanted = False
            self._callbacks.on_writable()

    def lose(self) -> None:
        """The client is gone."""
        if self.status is None:
            self.status = Status(StatusCode.UNAVAILABLE, "the connection was lost")
            self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            assert self.status is not None
            self._callbacks.on_end(self.status)
