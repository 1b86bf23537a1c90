"""A long-lived bidirectional stream of raw messages, which reopens whenever it breaks.

Hot path: callbacks, and no task; a message is sent as soon as the peer takes one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.hop.framing import HopFramingError, Parts
from highwater.rpc.ports import ClientStreamCall, Message, StreamChannel
from highwater.rpc.status import Status, StatusCode

REOPEN_DELAYS_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Waits between attempts; the last one repeats, and follows a bug at once."""


class Stream:
    """One method's stream to one node, from `start` to `stop`.

    `next_message` returns the next message to send, in one or several buffers, or None to wait for
    `wake`; `received` takes messages; `opened` and `broken` are called around each connection. All
    run on the loop. What they raise breaks the connection: HopFramingError because of the node,
    anything else is a bug.
    """

    def __init__(
        self,
        channel: StreamChannel,
        path: str,
        *,
        next_message: Callable[[], Parts | None],
        received: Callable[[Message], None],
        opened: Callable[[], None],
        broken: Callable[[str], None],
        on_bug: Callable[[Exception], None],
    ) -> None:
        """`on_bug` gets our bugs; the stream is then opened again, because others need it."""
        self._channel = channel
        self._path = path
        self._next_message = next_message
        self._received = received
        self._opened = opened
        self._broken = broken
        self._on_bug = on_bug
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call: ClientStreamCall | None = None
        self._again: asyncio.TimerHandle | None = None
        self._attempt = 0
        self._reason = ""
        """Why we end the connection ourselves."""
        self._met_bug = False
        self._writes = True
        self._writing = False
        self._scheduled = False
        self._paused = False
        self.is_open = False

    # ---- the owner's side ----

    def start(self) -> None:
        """Opens the stream, and again whenever it breaks."""
        self._loop = asyncio.get_running_loop()
        self._begin()

    def wake(self) -> None:
        """Asks for messages at the end of this turn of the loop."""
        if self.is_open and not self._scheduled:
            self._scheduled = True
            assert self._loop is not None
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Asks for messages now, and sends them while the peer takes them."""
        self._scheduled = False
        call = self._call
        if call is None or not self.is_open or self._writing:
            return  # While writing, the loop below asks again.
        self._writing = True
        try:
            while self._writes and call is self._call and call.can_send():
                message = self._next_message()
                if message is None:
                    break
                call.send(message)
        except Exception as error:  # noqa: BLE001 - reported; others still need the stream.
            self._bug(error)
        finally:
            self._writing = False

    def reset(self) -> None:
        """Breaks the present connection and drops its later messages; another one follows."""
        self._break("the stream was reset")

    def end_writing(self) -> None:
        """Closes our side of the present connection; the peer's messages are still read."""
        self._writes = False
        if self._call is not None:
            self._call.half_close()

    def pause_reading(self) -> None:
        """Takes no messages until `resume_reading`, also on later connections.

        The peer stops when its window is full, and a node then stops reading from its disk.
        """
        self._paused = True
        if self._call is not None:
            self._call.pause_reading()

    def resume_reading(self) -> None:
        """Goes on, with what has come meanwhile."""
        self._paused = False
        if self._call is not None:
            self._call.resume_reading()

    def stop(self) -> None:
        """Ends the stream for good; `broken` is not called."""
        self._loop = None
        self.is_open = False
        if self._again is not None:
            self._again.cancel()
            self._again = None
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    def end(self, reason: str) -> None:
        """Ends the stream for good, and calls `broken`."""
        self.stop()
        self._broken(reason)

    # ---- one connection ----

    def _begin(self) -> None:
        self._again = None
        self._reason = ""
        self._met_bug = False
        self._writes = True
        self._call = self._channel.stream(
            self._path,
            on_message=self._on_message,
            on_end=self._on_end,
            on_open=self._on_open,
            on_writable=self.write,
        )
        if self._paused:
            self._call.pause_reading()

    def _on_open(self) -> None:
        if self._loop is None:
            return
        self.is_open = True
        try:
            self._opened()
        except Exception as error:  # noqa: BLE001 - as in `write`.
            self._bug(error)
        self.wake()

    def _on_message(self, message: Message) -> None:
        try:
            self._received(message)
        except HopFramingError as error:
            self._break(f"the node sent a malformed message: {error}")
        except Exception as error:  # noqa: BLE001 - as in `write`.
            self._bug(error)

    def _break(self, reason: str) -> None:
        if self._call is not None:
            self._reason = reason
            self._call.cancel()

    def _bug(self, error: Exception) -> None:
        self._met_bug = True
        self._on_bug(error)
        self._break("the stream met a bug")

    def _on_end(self, status: Status) -> None:
        if self._loop is None:
            return  # Stopped, and nobody is told.
        self._call = None
        if self.is_open:
            self.is_open = False
            self._attempt = 0
        delay_s = REOPEN_DELAYS_S[min(self._attempt, len(REOPEN_DELAYS_S) - 1)]
        self._attempt += 1
        try:
            self._broken(self._reason or _words_of(status))
        except Exception as error:  # noqa: BLE001 - as in `write`.
            self._bug(error)
        if self._loop is not None:
            delay_s = REOPEN_DELAYS_S[-1] if self._met_bug else delay_s
            self._again = self._loop.call_later(delay_s, self._begin)


def _words_of(status: Status) -> str:
    if status.code is StatusCode.OK:
        return "the node ended the stream"
    return status.details or status.code.name
