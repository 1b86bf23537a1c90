"""A client's stream over grpc.aio, as `rpc.ports.ClientStreamCall`: two tasks instead of none."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc.aio

from highwater.http2.ports import Buffer
from highwater.rpc.grpcio_messages import Outgoing, code_of, metadata_of
from highwater.rpc.ports import Message
from highwater.rpc.reports import OnFailure, guarded
from highwater.rpc.status import Status, StatusCode
from highwater.runtime.tasks import TaskOwner

CLOSE_TIMEOUT_S = 1.0
OPEN_TIMEOUT_S = 15.0
"""Far above one attempt to connect. grpcio sets no limit of its own to the way of a call's headers."""


class GrpcioCall:
    """From `GrpcioChannel.stream` to its status."""

    def __init__(
        self,
        begin: Callable[[], Any],
        path: str,
        *,
        tasks: TaskOwner,
        on_failure: OnFailure,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None],
        on_writable: Callable[[], None],
        waits_for_ready: bool = False,
    ) -> None:
        """`begin` makes grpc.aio's call, whose type its stubs do not declare. One that `waits_for_ready` may
        wait for its peer for ever.
        """
        self._begin = begin
        self._path = path
        self._on_failure = on_failure
        self._on_message = on_message
        self._on_end = on_end
        self._on_open = on_open
        self._on_writable = on_writable
        self._waits_for_ready = waits_for_ready
        self._outgoing = Outgoing(self._writable)
        self._open = False
        self._ended = False
        self._reading = asyncio.Event()
        self._reading.set()
        self._call: Any = None
        self._task = tasks.start(self._run(), name=path)

    # ---- StreamCall ----

    @property
    def unsent_bytes(self) -> int:
        """See `StreamCall`."""
        return self._outgoing.nbytes

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """See `StreamCall`."""
        if not self._ended:
            self._outgoing.send(parts)

    def can_send(self) -> bool:
        """See `StreamCall`; before `on_open` False, which then stands for `on_writable`."""
        return self._open and not self._ended and self._outgoing.can_send()

    def half_close(self) -> None:
        """See `ClientStreamCall`."""
        self._outgoing.end()

    def pause_reading(self) -> None:
        """See `StreamCall`."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """See `StreamCall`; what has come meanwhile follows in the next turn of the loop."""
        self._reading.set()

    def cancel(self) -> None:
        """See `StreamCall`."""
        self._finish(Status(StatusCode.CANCELLED, "the call was cancelled here"))

    # ---- the call's life ----

    def _finish(self, status: Status) -> None:
        if self._ended:
            return
        self._ended = True
        if self._call is not None:
            self._call.cancel()
        if self._task is not asyncio.current_task():
            self._task.cancel()
        guarded(self._on_failure, self._path, lambda: self._on_end(status))

    def _bug(self, error: BaseException) -> None:
        self._on_failure(self._path, error)
        self._finish(Status(StatusCode.UNKNOWN, f"{type(error).__name__} in a callback"))

    def _writable(self) -> None:
        guarded(self._on_failure, self._path, self._on_writable)

    async def _run(self) -> None:
        self._call = call = self._begin()
        # A write fails only because the call has ended, which the reader knows better.
        writers = TaskOwner(lambda _name, _error: call.cancel())
        try:
            async with asyncio.timeout(None if self._waits_for_ready else OPEN_TIMEOUT_S):
                await call.wait_for_connection()
            self._open = True
            guarded(self._on_failure, self._path, self._on_open)
            writers.start(self._write(call), name=f"write {self._path}")
            status = await self._read(call)
        except grpc.aio.AioRpcError as error:
            trailing = metadata_of(error.trailing_metadata())
            status = Status(code_of(error.code()), error.details() or "", trailing)
        except TimeoutError:
            status = Status(StatusCode.UNAVAILABLE, f"not open after {OPEN_TIMEOUT_S:g} s")
        except asyncio.CancelledError:
            # gRPC also raises it when the server or a failed writer cancelled the call.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self._finish(Status(StatusCode.CANCELLED, "the channel was closed"))
                raise
            status = Status(StatusCode.CANCELLED, "the stream was cancelled")
        finally:
            call.cancel()
            await writers.close(timeout_s=CLOSE_TIMEOUT_S)
        self._finish(status)

    async def _read(self, call: Any) -> Status:
        while True:
            await self._reading.wait()
            message = await call.read()
            if message is grpc.aio.EOF:
                return Status(StatusCode.OK, "", metadata_of(await call.trailing_metadata()))
            await self._reading.wait()
            if self._ended:
                return Status(StatusCode.CANCELLED)
            try:
                self._on_message(message)
            except Exception as error:  # noqa: BLE001 - the owner's bug ends its call only.
                self._bug(error)

    async def _write(self, call: Any) -> None:
        await self._outgoing.run(call.write)
        await call.done_writing()
