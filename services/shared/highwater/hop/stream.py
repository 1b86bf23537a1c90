"""A long-lived bidirectional stream of raw messages, which reopens whenever it breaks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio

from highwater.hop.framing import HopFramingError
from highwater.runtime.tasks import TaskOwner

REOPEN_DELAYS_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5)
"""Waits between attempts; the last one repeats."""


class Stream:
    """One method's stream to one node.

    `next_message` returns the next message to write, or None to wait for `wake`; `received` takes
    messages; `opened` and `broken` are called around each connection. All run on the loop.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        method: str,
        *,
        next_message: Callable[[], bytes | None],
        received: Callable[[bytes], None],
        opened: Callable[[], None],
        broken: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        room: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        """`room` returns a future to wait for before the next message is read, or None.

        During the wait gRPC's window fills, and the node stops reading from its disk.
        """
        # No serializers: messages are bytes on both sides, framed by highwater.hop.
        # The stubs declare neither the defaults nor EOF.
        untyped: Any = channel
        self._call: Any = untyped.stream_stream(method)
        self._next_message = next_message
        self._received = received
        self._opened = opened
        self._broken = broken
        self._sleep = sleep
        self._room = room
        self._wake = asyncio.Event()
        self._under_way: Any = None
        self._writes = True
        self.is_open = False

    def wake(self) -> None:
        """Tells the writer that there may be a message."""
        self._wake.set()

    def reset(self) -> None:
        """Breaks the current connection and drops its later messages; `run` opens the next."""
        if self._under_way is not None:
            self._under_way.cancel()

    def end_writing(self) -> None:
        """Closes our side of the current connection; the peer's messages are still read."""
        self._writes = False
        self.wake()

    async def run(self) -> None:
        """Keeps the stream open until cancelled."""
        attempt = 0
        while True:
            reason = await self._run_once()
            if self.is_open:
                self.is_open = False
                attempt = 0
            self._broken(reason)
            await self._sleep(REOPEN_DELAYS_S[min(attempt, len(REOPEN_DELAYS_S) - 1)])
            attempt += 1

    def end(self, reason: str) -> None:
        """Calls `broken`; call it after `run` was cancelled."""
        self.is_open = False
        self._broken(reason)

    async def _run_once(self) -> str:
        call: Any = self._call()
        self._under_way = call
        writers = TaskOwner(lambda _name, _error: call.cancel())
        try:
            await call.wait_for_connection()
            self.is_open = True
            self._writes = True
            self._opened()
            writers.start(self._write(call), name="hop-writer")
            while True:
                if self._room is not None and (room := self._room()) is not None:
                    await room
                message = await call.read()
                if message is grpc.aio.EOF:
                    return "the node ended the stream"
                self._received(message)
        except grpc.aio.AioRpcError as error:
            return error.details() or error.code().name
        except HopFramingError as error:
            return f"the node sent a malformed message: {error}"
        except asyncio.CancelledError:
            # gRPC also raises it when the node or a failed writer cancelled the call.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return "the stream was cancelled"
        finally:
            self._under_way = None
            call.cancel()
            await writers.close(timeout_s=1)

    async def _write(self, call: Any) -> None:
        while self._writes:
            self._wake.clear()
            message = self._next_message()
            if message is None:
                await self._wake.wait()
            else:
                await call.write(message)
        await call.done_writing()
