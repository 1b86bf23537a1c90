"""Heartbeats: at once, on a nudge, from a stalled service, and to the active controller."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2_grpc as rpc
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.heartbeat import HeartbeatLoop, InLoopHeartbeats
from highwater.metadata.loop_watch import LOOP_SILENT_MS_MAX
from highwater.metadata.status import ACTIVE_KEY, NOT_CONTROLLER, REASON_KEY
from highwater.rpc.grpcio_guard import GuardInterceptor, server_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.clock import SystemClock
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.inner_settings import InnerSettings
from tests.support.certificates import make_authority
from tests.support.etcd import free_ports

CLOCK = SystemClock().monotonic_ms


class RecordingController(rpc.ControllerServiceServicer):
    """Counts heartbeats; with `active` it is a standby that names the active controller."""

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.active = ""

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> Any:
        if self.active:
            trailing = ((REASON_KEY, NOT_CONTROLLER), (ACTIVE_KEY, self.active))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "standby", trailing)
        self.revisions.append(request.applied_revision)
        return pb.HeartbeatResponse(fenced=True)


class Served:
    """A recording controller on a server, or in process."""

    def __init__(self, *, in_process: bool) -> None:
        self.controller = RecordingController()
        self.server = None if in_process else GrpcServer("127.0.0.1", 0)

    async def start(self) -> ControllerEndpoints:
        if self.server is None:
            return ControllerEndpoints.in_process(self.controller, object())
        self.server.register(
            lambda s: rpc.add_ControllerServiceServicer_to_server(self.controller, s)  # type: ignore[no-untyped-call]
        )
        await self.server.start()
        return ControllerEndpoints([self.server.address])

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(drain_s=0)


@pytest.fixture(params=[False, True], ids=["thread", "in-loop"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    made = Served(in_process=request.param)
    yield made
    await made.stop()


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


async def test_at_once_on_a_nudge_and_at_intervals(served: Served) -> None:
    endpoints = await served.start()
    revision = 1
    answers: list[bool] = []
    kind = InLoopHeartbeats if served.server is None else HeartbeatLoop
    beats = kind(
        endpoints,
        make_request=lambda: pb.HeartbeatRequest(node_id=1, applied_revision=revision),
        on_response=lambda response, _: answers.append(response.fenced),
        interval_ms=500,
        monotonic_ms=CLOCK,
    )
    beats.start()
    revisions = served.controller.revisions
    await until(lambda: revisions == [1])
    revision = 2
    beats.nudge()
    await until(lambda: revisions == [1, 2], 0.4)
    await until(lambda: len(revisions) == 3, 2.0)
    await until(lambda: len(answers) == 3)
    assert answers == [True, True, True]
    await beats.stop()
    count = len(revisions)
    await asyncio.sleep(0.7)
    assert len(revisions) == count
    await endpoints.close()


async def test_nothing_is_sent_before_registration(served: Served) -> None:
    endpoints = await served.start()
    kind = InLoopHeartbeats if served.server is None else HeartbeatLoop
    beats = kind(
        endpoints, make_request=lambda: None, on_response=print, interval_ms=10, monotonic_ms=CLOCK
    )
    beats.start()
    await asyncio.sleep(0.2)
    assert served.controller.revisions == []
    await beats.stop()
    await endpoints.close()


class Elsewhere:
    """A controller on its own threads, which a stall of the test's loop does not affect."""

    def __init__(self) -> None:
        self.received_s: list[float] = []
        self.answers = threading.Event()
        """While cleared, heartbeats wait."""
        self.answers.set()
        self._server = grpc.server(ThreadPoolExecutor(4))
        method = grpc.unary_unary_rpc_method_handler(
            self._handle,
            request_deserializer=pb.HeartbeatRequest.FromString,
            response_serializer=pb.HeartbeatResponse.SerializeToString,
        )
        name = "highwater.api.controller.v1.ControllerService"
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, {"Heartbeat": method}),)
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _handle(self, _request: pb.HeartbeatRequest, _context: Any) -> pb.HeartbeatResponse:
        self.received_s.append(time.monotonic())
        self.answers.wait(10)
        return pb.HeartbeatResponse()

    def stop(self) -> None:
        self._server.stop(0).wait(5)


@contextlib.asynccontextmanager
async def beating(*addresses: str, interval_ms: int) -> AsyncIterator[ControllerEndpoints]:
    """Sends node 1's heartbeats from a thread, to the first address while it answers."""
    endpoints = ControllerEndpoints(list(addresses))
    beats = HeartbeatLoop(
        endpoints,
        make_request=lambda: pb.HeartbeatRequest(node_id=1),
        on_response=lambda *_: None,
        interval_ms=interval_ms,
        monotonic_ms=CLOCK,
    )
    beats.start()
    try:
        yield endpoints
    finally:
        await beats.stop()
        await endpoints.close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    controller = Elsewhere()
    yield controller
    controller.answers.set()
    controller.stop()


async def test_a_loop_that_stalls_for_a_second_keeps_its_session(elsewhere: Elsewhere) -> None:
    """The loop is slow, not dead: heartbeats continue."""
    received_s = elsewhere.received_s
    async with beating(elsewhere.address, interval_ms=50):
        await until(lambda: received_s)
        before = len(received_s)
        time.sleep(1.0)  # noqa: ASYNC251 - the stall is what is tested.
        assert len(received_s) - before >= 10


@pytest.mark.slow
async def test_no_heartbeats_are_sent_while_the_loop_hangs(
    elsewhere: Elsewhere,
) -> None:
    """As in a write to a stopped disk: the session must end, so that others lead."""
    received_s = elsewhere.received_s
    async with beating(elsewhere.address, interval_ms=1_000):
        await until(lambda: received_s)
        begun_s, limit_s = time.monotonic(), LOOP_SILENT_MS_MAX / 1000
        time.sleep(limit_s + 3.0)  # noqa: ASYNC251 - the stall is what is tested.
        ended_s = time.monotonic()
        last_s = received_s[-1]
        assert begun_s + 1.5 < last_s, "a short stall is vouched for"
        assert last_s < begun_s + 1.0 + limit_s, (
            "an interval, in which the loop is asked, and the limit"
        )
        await until(lambda: received_s[-1] > ended_s, 0.9)  # Sooner than the next interval.


async def test_a_controller_that_is_late_once_is_not_left(elsewhere: Elsewhere) -> None:
    """The watch would leave too, which the controller takes for this member's end."""
    closed = f"127.0.0.1:{free_ports(1)[0]}"
    received_s, answers = elsewhere.received_s, elsewhere.answers
    moves: list[str] = []

    async def asked(times: int) -> None:
        before = len(received_s)
        await until(lambda: len(received_s) >= before + times)

    async with beating(elsewhere.address, closed, interval_ms=50) as endpoints:
        endpoints.on_change(lambda: moves.append(endpoints.present))
        for _ in range(2):
            await asked(2)
            answers.clear()
            await asked(2)  # The second heartbeat is a second after the first.
            answers.set()
            assert moves == []
        await asked(2)
        answers.clear()
        await until(lambda: moves)
        assert moves[0] == closed, "the second in a row is one too many"
        answers.set()


async def test_an_answer_comes_with_the_time_of_its_heartbeat(served: Served) -> None:
    """The session lasts at least from then on, however late the answer is read."""
    endpoints = await served.start()
    now_ms = 5_000
    sent: list[int] = []

    def request() -> pb.HeartbeatRequest:
        nonlocal now_ms
        now_ms += 1
        return pb.HeartbeatRequest(node_id=1)

    kind = InLoopHeartbeats if served.server is None else HeartbeatLoop
    beats = kind(
        endpoints,
        make_request=request,
        on_response=lambda _, sent_ms: sent.append(sent_ms),
        interval_ms=20,
        monotonic_ms=lambda: now_ms,
    )
    beats.start()
    await until(lambda: len(sent) >= 3)
    await beats.stop()
    assert sent[:3] == [5_001, 5_002, 5_003]
    await endpoints.close()


async def test_heartbeats_follow_the_active_controller() -> None:
    standby, active = Served(in_process=False), Served(in_process=False)
    endpoints = await standby.start()
    await active.start()
    assert active.server is not None
    standby.controller.active = active.server.address
    beats = HeartbeatLoop(
        endpoints,
        make_request=lambda: pb.HeartbeatRequest(node_id=1, applied_revision=5),
        on_response=lambda *_: None,
        interval_ms=100,
        monotonic_ms=CLOCK,
    )
    beats.start()
    await until(lambda: active.controller.revisions)
    assert endpoints.present == active.server.address, "the watch and the client learn it too"
    await beats.stop()
    await endpoints.close()
    await standby.stop()
    await active.stop()


async def test_without_an_active_controller_heartbeats_are_retried_a_few_times_a_second() -> None:
    """Each failure moves to the next endpoint, but there must still be a pause."""
    closed = [f"127.0.0.1:{port}" for port in free_ports(2)]
    endpoints = ControllerEndpoints(closed)
    asked: list[float] = []

    def request() -> pb.HeartbeatRequest:
        asked.append(time.monotonic())
        return pb.HeartbeatRequest(node_id=1)

    beats = HeartbeatLoop(
        endpoints,
        make_request=request,
        on_response=lambda *_: None,
        interval_ms=1_000,
        monotonic_ms=CLOCK,
    )
    beats.start()
    await asyncio.sleep(1.0)
    begun = time.monotonic()
    await beats.stop()
    assert time.monotonic() - begun < 1.0
    assert 3 <= len(asked) <= 20
    await endpoints.close()


async def test_the_thread_shows_secret_and_certificates(tmp_path: Path) -> None:
    authority = make_authority(tmp_path / "authority")
    cert, key = authority.issue("member")
    secret = tmp_path / "secret"
    secret.write_text("s" * 20)
    inner = Inner(
        InnerSettings(
            secret_file=secret, ca_file=authority.certificate, cert_file=cert, key_file=key
        )
    )
    guard = inner.guard()
    assert guard is not None
    controller = RecordingController()
    server = GrpcServer(
        "127.0.0.1",
        0,
        interceptors=(GuardInterceptor(guard),),
        credentials=server_credentials(inner.server_tls),
    )
    server.register(
        lambda s: rpc.add_ControllerServiceServicer_to_server(controller, s)  # type: ignore[no-untyped-call]
    )
    await server.start()
    endpoints = ControllerEndpoints([server.address], inner=inner)
    beats = HeartbeatLoop(
        endpoints,
        make_request=lambda: pb.HeartbeatRequest(node_id=1, applied_revision=7),
        on_response=lambda *_: None,
        interval_ms=50,
        monotonic_ms=CLOCK,
    )
    beats.start()
    await until(lambda: len(controller.revisions) > 1)
    await endpoints.current().controller.Heartbeat(
        pb.HeartbeatRequest(applied_revision=8), timeout=5
    )
    assert 8 in controller.revisions
    await beats.stop()
    await endpoints.close()
    await server.stop(drain_s=0)
