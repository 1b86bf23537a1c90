"""A client's stream over grpc.aio; `test_ports` has what both transports promise."""

import asyncio

import grpc
import grpc.aio
import pytest

from highwater.rpc import grpcio_call
from highwater.rpc.grpcio_call import GrpcioCall
from highwater.rpc.status import Status, StatusCode
from highwater.runtime.tasks import TaskOwner


class Inner:
    """grpc.aio's call, played by the test."""

    def __init__(self):
        self.connected = asyncio.Event()
        self.inbox = asyncio.Queue()
        self.written, self.write_failure = [], None
        self.done = self.cancelled = False

    async def wait_for_connection(self):
        await self.connected.wait()

    async def read(self):
        item = await self.inbox.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def write(self, message):
        if self.write_failure is not None:
            raise self.write_failure
        self.written.append(message)

    async def done_writing(self):
        self.done = True

    async def trailing_metadata(self):
        return (("a", "b"),)

    def cancel(self):
        self.cancelled = True
        self.inbox.put_nowait(asyncio.CancelledError())


class World:
    def __init__(self, **options):
        self.inner = Inner()
        self.failures, self.messages, self.ends, self.events = [], [], [], []
        self.tasks = TaskOwner(self.failed)
        self.call = GrpcioCall(
            lambda: self.inner,
            "/service/Method",
            tasks=self.tasks,
            on_failure=self.failed,
            on_message=self.messages.append,
            on_end=self.ends.append,
            on_open=lambda: self.events.append("open"),
            on_writable=lambda: self.events.append("writable"),
            **options,
        )

    def failed(self, name, error):
        self.failures.append((name, error))

    async def until(self, condition):
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0)


@pytest.fixture
async def world():
    made = World()
    yield made
    await made.tasks.close(timeout_s=1)
    assert made.failures == []
    assert len(made.ends) == 1


async def test_messages_wait_for_the_connection(world):
    world.call.send(b"early")
    assert not world.call.can_send()
    await asyncio.sleep(0.01)
    assert (world.inner.written, world.events) == ([], [])
    world.inner.connected.set()
    await world.until(lambda: world.inner.written == [b"early"])
    assert world.events[0] == "open"
    assert world.call.can_send()
    world.call.half_close()
    await world.until(lambda: world.inner.done)
    world.inner.inbox.put_nowait(grpc.aio.EOF)
    await world.until(lambda: world.ends)
    assert world.ends == [Status(StatusCode.OK, "", [("a", "b")])]


async def test_a_call_can_be_cancelled_before_it_is_connected(world):
    await asyncio.sleep(0)
    world.call.cancel()
    assert [status.code for status in world.ends] == [StatusCode.CANCELLED]
    await world.until(lambda: world.inner.cancelled)
    assert world.events == []


async def test_a_call_that_is_not_open_in_time_ends(monkeypatch):
    monkeypatch.setattr(grpcio_call, "OPEN_TIMEOUT_S", 0.01)
    world = World()
    await world.until(lambda: world.ends)
    assert world.ends[0].code is StatusCode.UNAVAILABLE
    assert "not open" in world.ends[0].details
    assert world.events == []
    assert world.inner.cancelled


async def test_a_call_that_waits_for_its_peer_may_wait(monkeypatch):
    monkeypatch.setattr(grpcio_call, "OPEN_TIMEOUT_S", 0.01)
    world = World(waits_for_ready=True)
    await asyncio.sleep(0.1)
    world.inner.connected.set()
    await world.until(lambda: world.events)
    await world.tasks.close(timeout_s=1)
    assert [status.code for status in world.ends] == [StatusCode.CANCELLED]


async def test_a_message_that_comes_during_a_pause_waits(world):
    world.inner.connected.set()
    await world.until(lambda: world.events)
    await asyncio.sleep(0.01)  # It reads.
    world.call.pause_reading()
    world.inner.inbox.put_nowait(b"a")
    world.inner.inbox.put_nowait(b"b")
    await asyncio.sleep(0.01)
    assert (world.messages, world.inner.inbox.qsize()) == ([], 1)
    world.call.resume_reading()
    await world.until(lambda: world.messages == [b"a", b"b"])


async def test_a_write_that_fails_ends_the_call(world):
    world.inner.connected.set()
    world.inner.write_failure = asyncio.InvalidStateError("RPC already finished.")
    world.call.send(b"a")
    await world.until(lambda: world.ends)
    assert world.ends[0].code is StatusCode.CANCELLED


async def test_an_error_of_grpcio_is_the_calls_status(world):
    world.inner.connected.set()
    world.inner.inbox.put_nowait(
        grpc.aio.AioRpcError(
            grpc.StatusCode.ABORTED,
            grpc.aio.Metadata(),
            grpc.aio.Metadata(("a", "b")),
            details="why",
        )
    )
    await world.until(lambda: world.ends)
    assert world.ends == [Status(StatusCode.ABORTED, "why", [("a", "b")])]
