"""One stream that a peer has opened: reads in order, gathers answers, ends as the node stops.

Hot path: callbacks, and no task. Answers leave once per turn of the loop, while the peer takes them;
until then they gather. Reading stops while too many of them wait, so a peer that does not read
cannot fill this node's memory. A stopping node ends its streams in order, see `stream_drain`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from highwater.hop.framing import HopFramingError, Parts, bytes_of
from highwater.partition.edge.stream_drain import REFUSED, StreamDrain
from highwater.rpc.ports import Message, ServerCallbacks, ServerStreamCall, StreamHandler
from highwater.rpc.reports import OnFailure
from highwater.rpc.status import Status, StatusCode

OUT_BYTES_MAX: Final = 16 << 20
"""Of answers that wait; with more, nothing is read."""
AWAITED_MAX: Final = 100_000
"""Answers that are `awaited`; with more, nothing is read. A gateway has far fewer groups under way: its
budget for requests is 256 MiB, and each of a group's batches has a request of its own."""
TURN_BYTES: Final = 2 << 20
"""Sent in one turn of the loop; others want it, too."""


class Served(Protocol):
    """What one stream serves: what is special about its method."""

    def receive(self, message: Message) -> None:
        """Takes a message; HopFramingError ends the stream with INVALID_ARGUMENT."""
        ...

    def before_write(self) -> None:
        """Runs before each look at the stream's queue: `put` what has gathered."""
        ...

    def under_way(self) -> bool:
        """Whether answers are still to come of what was read, beside those that have gathered."""
        ...

    def say_goodbye(self) -> bool:
        """Tells the peer that nothing more is read; False if the method has no such message."""
        ...

    def closed(self) -> None:
        """The stream is over: nobody waits for its answers, and nothing else is called."""
        ...

    def memory(self) -> int:
        """About how many bytes are kept for the peer, without answers that are counted elsewhere."""
        ...


class _Nothing:
    """What a stream serves that is over: it and its method's object would keep one another."""

    def receive(self, message: Message) -> None:
        """Drops it."""

    def before_write(self) -> None:
        """Nothing gathers here."""

    def under_way(self) -> bool:
        """Nobody waits."""
        return False

    def say_goodbye(self) -> bool:
        """Nobody hears it."""
        return False

    def closed(self) -> None:
        """Called already, of what was served."""

    def memory(self) -> int:
        """Nothing is kept."""
        return 0


_NOTHING: Final = _Nothing()


class ServedStream:
    """Lives from the call's begin to its end; `serve` makes what is special about its method.

    Ends, each of which calls `Served.closed` once: the peer is gone, or has closed its side and got
    every answer (OK); a malformed message (INVALID_ARGUMENT) or a bug (UNKNOWN); the node stops. Then
    nothing more is read. A stream that can `say_goodbye` waits until its peer has closed its side;
    every stream waits for answers that are `awaited` or not written, no longer for others that are
    `under_way`, and is cancelled if the peer has not read them by the deadline.
    """

    def __init__(
        self,
        call: ServerStreamCall,
        drain: StreamDrain,
        on_failure: OnFailure,
        serve: "Serve",
        *,
        last: bool = False,
    ) -> None:
        """`on_failure` gets our bugs, by path. `last`: see `StreamDrain.register`."""
        self._call = call
        self._drain = drain
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._messages: deque[Parts] = deque()
        self._nbytes = 0
        self._scheduled = False
        self._blocked = False
        """The peer takes nothing more; `on_writable` follows."""
        self._paused = False
        self._peer_closed = False
        """The peer sends nothing more; it may wait for answers."""
        self._stopping = False
        self._all_read = False
        """The node stops, and the peer sends nothing more, or what it sends is not read."""
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self.awaited = 0
        """Answers that come soon without another event; the end of the stream waits for them."""
        self.gathered_bytes = 0
        """About as many are in answers that `Served.before_write` has not put into messages."""
        self._served = serve(self)
        self._leave = drain.register(self._stop, last=last)

    @property
    def callbacks(self) -> ServerCallbacks:
        """For the call."""
        return ServerCallbacks(
            on_message=self._on_message,
            on_half_close=self._on_half_close,
            on_end=self._on_end,
            on_writable=self._on_writable,
            memory=self._memory,
        )

    def _memory(self) -> int:
        return self._nbytes + self.gathered_bytes + self._served.memory()

    # ---- for what it serves ----

    def put(self, message: Parts) -> None:
        """Queues a message."""
        self._messages.append(message)
        self._nbytes += bytes_of(message)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages that the transport has not been given."""
        return self._nbytes

    def wake(self) -> None:
        """There are answers: they leave at the end of this turn, if the peer takes them."""
        if not self._paused and (
            self._nbytes + self.gathered_bytes > OUT_BYTES_MAX or self.awaited > AWAITED_MAX
        ):
            self._paused = True
            self._call.pause_reading()
        if not self._scheduled and not self._blocked:
            self._scheduled = True
            self._loop.call_soon(self._write)

    # ---- writing ----

    def _on_writable(self) -> None:
        self._blocked = False
        self._write()

    def _write(self) -> None:
        self._scheduled = False
        if self._over:
            return
        try:
            written = self._write_messages()
        except Exception as error:  # noqa: BLE001 - a bug costs one stream.
            self._bug(error)
            return
        if written and self._may_end():
            self._finish()
        elif (
            self._paused
            and self._nbytes + self.gathered_bytes <= OUT_BYTES_MAX
            and self.awaited <= AWAITED_MAX
        ):
            self._paused = False
            self._call.resume_reading()

    def _may_end(self) -> bool:
        """Whether a stream that has written everything is over."""
        if self._stopping:
            return self._all_read and not self.awaited
        return self._peer_closed and not self._served.under_way()

    def _write_messages(self) -> bool:
        """Writes what the peer takes; True if that was everything."""
        call, messages = self._call, self._messages
        room = TURN_BYTES
        while True:
            if not call.can_send():
                self._blocked = True
                return False
            self._served.before_write()
            if not messages:
                return True
            if room <= 0:
                self.wake()
                return False
            message = messages.popleft()
            nbytes = bytes_of(message)
            self._nbytes -= nbytes
            room -= nbytes
            call.send(message)

    # ---- reading ----

    def _on_message(self, message: Message) -> None:
        if self._stopping or self._over:
            return  # The peer hears, or has heard, that nothing more is answered.
        try:
            self._served.receive(message)
        except HopFramingError as error:
            self._finish(StatusCode.INVALID_ARGUMENT, str(error))
        except Exception as error:  # noqa: BLE001 - a bug costs one stream.
            self._bug(error)

    def _on_half_close(self) -> None:
        self._peer_closed = True
        if self._stopping:
            self._all_read = True
        self.wake()

    # ---- ends ----

    def _stop(self) -> None:
        """The node stops: reads nothing more, and gives the peer some time to close its side."""
        if self._over:
            return
        self._stopping = True
        self._all_read = self._peer_closed or not self._served.say_goodbye()
        self._timer = self._loop.call_at(self._drain.deadline_s, self._deadline_passed)
        self.wake()

    def _deadline_passed(self) -> None:
        self._timer = None
        self._all_read = True
        self.awaited = 0
        self._write()
        if not self._over:
            self._call.cancel()  # The peer does not read.

    def _bug(self, error: Exception) -> None:
        self._on_failure(self._call.path, error)
        # An error reaches the peer, which opens another stream.
        self._finish(StatusCode.UNKNOWN, f"{type(error).__name__} in a handler")

    def _finish(self, code: StatusCode = StatusCode.OK, details: str = "") -> None:
        self._close()
        self._call.finish(code, details)

    def _on_end(self, _status: Status) -> None:
        self._close()

    def _close(self) -> None:
        if self._over:
            return
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._messages.clear()
        self._leave()
        served, self._served = self._served, _NOTHING
        served.closed()


Serve = Callable[[ServedStream], Served]
"""Makes what a stream serves, which puts its answers there; called once, in the stream's `__init__`."""


def stream_handler(
    serve: Serve, drain: StreamDrain, on_failure: OnFailure, *, last: bool = False
) -> StreamHandler:
    """Serves a method; a stopping node refuses new streams. See `ServedStream`."""

    def handle(call: ServerStreamCall) -> ServerCallbacks:
        if drain.ended:
            call.finish(*REFUSED)
            return ServerCallbacks(on_message=_ignore)
        return ServedStream(call, drain, on_failure, serve, last=last).callbacks

    return handle


def _ignore(_message: Message) -> None:
    """Of a call that is finished."""
