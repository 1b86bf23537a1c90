"""Heartbeats to the controller: from a thread of their own, or in embedded mode from the loop.

A service whose event loop stalls for seconds is slow, not dead; the thread keeps the session, but
only as long as `loop_watch` allows: a service whose loop hangs (in a write to a hanging disk) must
not lead for ever. Heartbeats go on as soon as the loop runs again. They also carry the revision that
the service has applied; admin calls wait for it, so `nudge` is called right after each image.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, Protocol

import grpc

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2_grpc as rpc
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.loop_watch import LoopWatch
from highwater.metadata.status import ACTIVE_KEY, code_of, is_not_controller, trailing_value
from highwater.rpc.grpcio_guard import ProvingChannel, client_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT, shared_options
from highwater.runtime.tasks import TaskOwner

ATTEMPT_TIMEOUT_S: Final = 1.0
"""The limit of one attempt; a session of six seconds has time for several controllers."""

_FAILED_PAUSE_S: Final = (0.02, 0.1)
"""First and longest pause after failed heartbeats. A failure moves the endpoints, which triggers the
next attempt at once: without a pause, members would keep trying while no controller is active, and
take the processor from controllers that start."""

_STOP_TIMEOUT_S: Final = 3.0

MakeRequest = Callable[[], pb.HeartbeatRequest | None]
"""Builds the next heartbeat; None while the service is not registered or cannot do its work.
HeartbeatLoop calls it on its thread, so it only reads values that are replaced as a whole."""

OnResponse = Callable[[pb.HeartbeatResponse, int], None]
"""Takes an answer, and when the heartbeat was sent (monotonic ms); called on the event loop.
STALE_BROKER_EPOCH (77) and BROKER_ID_NOT_REGISTERED (102) mean that the service must register again."""


class Heartbeats(Protocol):
    """Heartbeats of either kind."""

    def start(self) -> None:
        """Begins, with a heartbeat at once."""
        ...

    def nudge(self) -> None:
        """Sends a heartbeat now rather than at the next interval. From the event loop."""
        ...

    async def stop(self) -> None:
        """Ends."""
        ...


class _BlockingStub(Protocol):
    """A stub of the ControllerService on the thread's channel."""

    def Heartbeat(  # noqa: N802 - the name is the proto's.
        self, request: pb.HeartbeatRequest, *, timeout: float
    ) -> pb.HeartbeatResponse:
        """`timeout` is in seconds. Raises grpc.RpcError."""
        ...


class HeartbeatLoop:
    """Heartbeats from a thread with a blocking channel of its own. Belongs to the running loop."""

    def __init__(
        self,
        endpoints: ControllerEndpoints,
        *,
        make_request: MakeRequest,
        on_response: OnResponse,
        interval_ms: int,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """`interval_ms` is the controller's answer to the registration."""
        self._endpoints = endpoints
        self._make_request = make_request
        self._on_response = on_response
        self._interval_s = interval_ms / 1000
        self._monotonic_ms = monotonic_ms
        self._loop = asyncio.get_running_loop()
        self._due = threading.Event()
        self._stopping = threading.Event()
        self._failed_pause_s = _FAILED_PAUSE_S[0]
        self._address = endpoints.present
        self._answered = ""
        """The controller that has answered since the last slow heartbeat, or empty."""
        self._loop_watch = LoopWatch(
            self._on_loop, monotonic_ms=monotonic_ms, on_return=self._due.set
        )
        endpoints.on_change(self._follow)
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """See Heartbeats."""
        self._thread.start()

    def nudge(self) -> None:
        """See Heartbeats."""
        self._due.set()

    async def stop(self) -> None:
        """Ends the thread; waits a few seconds at most for a heartbeat in flight."""
        self._stopping.set()
        self._due.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _STOP_TIMEOUT_S)

    def _follow(self) -> None:
        self._address = self._endpoints.present
        self._due.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            address = self._address
            inner = self._endpoints.inner
            generation = inner.generation
            with _open_channel(address, inner) as channel:
                proving = ProvingChannel(channel, lambda: self._endpoints.inner.proof)
                stub = rpc.ControllerServiceStub(channel if inner.secret is None else proving)  # type: ignore[no-untyped-call]
                while (
                    self._address == address
                    and generation == inner.generation
                    and not self._stopping.is_set()
                ):
                    self._pause(failed=self._beat(stub, address))

    def _pause(self, *, failed: bool) -> None:
        first_s, greatest_s = _FAILED_PAUSE_S
        if failed:
            self._stopping.wait(self._failed_pause_s)
        self._failed_pause_s = min(greatest_s, 2 * self._failed_pause_s) if failed else first_s
        # Repeat a failed heartbeat soon, before the session expires.
        self._due.wait(min(self._interval_s, 0.2) if failed else self._interval_s)
        self._due.clear()

    def _beat(self, stub: _BlockingStub, address: str) -> bool:
        request = self._make_request() if self._loop_watch.runs() else None
        if request is None:
            return False
        sent_ms = self._monotonic_ms()
        try:
            response = stub.Heartbeat(request, timeout=ATTEMPT_TIMEOUT_S)
        except grpc.RpcError as error:
            late = code_of(error) is grpc.StatusCode.DEADLINE_EXCEEDED
            if late and self._answered == address:
                # The controller seems slow. Leaving it would also close the watch, which it would
                # take for this member's death half a second later; the next may be as slow.
                self._answered = ""
                return True
            hint = trailing_value(error, ACTIVE_KEY) if is_not_controller(error) else ""
            self._on_loop(self._endpoints.leave, address, hint)
            return True
        self._answered = address
        self._on_loop(self._on_response, response, sent_ms)
        return False

    def _on_loop(self, call: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop has been closed: the process ends.
            self._loop.call_soon_threadsafe(call, *args)


class InLoopHeartbeats:
    """Heartbeats from the event loop, for embedded mode, where the controller runs on it, too."""

    def __init__(
        self,
        endpoints: ControllerEndpoints,
        *,
        make_request: MakeRequest,
        on_response: OnResponse,
        interval_ms: int,
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._endpoints = endpoints
        self._make_request = make_request
        self._on_response = on_response
        self._interval_s = interval_ms / 1000
        self._monotonic_ms = monotonic_ms
        self._due = asyncio.Event()
        self._tasks = TaskOwner(self._on_failure)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception of a callback, which is a bug."""

    def start(self) -> None:
        """See Heartbeats."""
        self._tasks.start(self._run(), name="heartbeats")

    def nudge(self) -> None:
        """See Heartbeats."""
        self._due.set()

    async def stop(self) -> None:
        """See Heartbeats."""
        await self._tasks.close(timeout_s=_STOP_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            self._due.clear()
            request = self._make_request()
            if request is not None:
                await self._beat(request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._due.wait()

    async def _beat(self, request: pb.HeartbeatRequest) -> None:
        endpoint = self._endpoints.current()
        sent_ms = self._monotonic_ms()
        try:
            response = await endpoint.controller.Heartbeat(request, timeout=ATTEMPT_TIMEOUT_S)
        except grpc.RpcError as error:
            hint = trailing_value(error, ACTIVE_KEY) if is_not_controller(error) else ""
            self._endpoints.leave(endpoint.address, hint)
            return
        self._on_response(response, sent_ms)

    def _on_failure(self, _name: str, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)


def _open_channel(address: str, inner: Inner) -> grpc.Channel:
    """With the certificates of this moment."""
    credentials = client_credentials(inner.client_tls)
    if credentials is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.secure_channel(address, credentials, options=_OPTIONS)


_OPTIONS: Final = [
    *shared_options(MESSAGE_BYTES_MAX_DEFAULT),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name, the limit of one attempt to connect.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Heartbeats must not share a connection, and its flow control, with the watch.
    ("grpc.use_local_subchannel_pool", 1),
]
