"""A stream that is opened again whenever it ends, on a fake channel."""

import asyncio

import grpc
import grpc.aio
import pytest

from highwater.hop.framing import HopFramingError
from highwater.hop.stream import REOPEN_DELAYS_S, Stream
from highwater.runtime.tasks import TaskOwner


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


class Call:
    """One call on the fake channel."""

    def __init__(self, connects):
        self.connects = connects
        self.inbox = asyncio.Queue()
        self.written = []
        self.cancelled = self.closed = False

    async def wait_for_connection(self):
        if not self.connects:
            raise error_of(grpc.StatusCode.UNAVAILABLE, "refused")

    async def read(self):
        item = await self.inbox.get()
        if isinstance(item, BaseException):
            raise item
        return item

    async def write(self, message):
        self.written.append(message)

    async def done_writing(self):
        self.closed = True

    def cancel(self):
        self.cancelled = True
        self.inbox.put_nowait(asyncio.CancelledError())


def error_of(code, details):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class World:
    """A channel whose calls the test keeps, and a stream on it."""

    def __init__(self):
        self.connects = True
        self.calls = []
        self.queue = []
        self.received, self.opened, self.broken, self.slept = [], [], [], []
        self.ended = []
        self.room = None
        self.stream = Stream(
            self,
            "/service/Method",
            next_message=self.next_message,
            received=self.receive,
            opened=lambda: self.opened.append(len(self.calls)),
            broken=self.broken.append,
            sleep=self.sleep,
            room=lambda: self.room,
        )
        self.owner = TaskOwner(lambda name, error: self.ended.append(error))
        self.task = self.owner.start(self.stream.run(), name="stream")

    def stream_stream(self, method):
        assert method == "/service/Method"
        return self.open_call

    def open_call(self):
        self.calls.append(Call(self.connects))
        return self.calls[-1]

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def next_message(self):
        if not self.queue:
            return None
        item = self.queue.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    def receive(self, message):
        if isinstance(message, bytes) and message.startswith(b"!"):
            raise HopFramingError("nonsense")
        self.received.append(message)


@pytest.fixture
async def world():
    made = World()
    await until(lambda: made.stream.is_open)
    yield made
    await made.owner.close(timeout_s=1)
    assert made.ended == []


async def test_messages_go_both_ways(world):
    world.queue += [b"a", b"b"]
    world.stream.wake()
    world.calls[0].inbox.put_nowait(b"c")
    await until(lambda: world.calls[0].written == [b"a", b"b"] and world.received == [b"c"])


async def test_nothing_is_read_until_there_is_room(world):
    call = world.calls[0]
    world.room = asyncio.get_running_loop().create_future()
    call.inbox.put_nowait(b"a")
    await until(lambda: world.received == [b"a"])
    call.inbox.put_nowait(b"b")
    world.queue.append(b"c")
    world.stream.wake()
    await until(lambda: call.written == [b"c"])
    await asyncio.sleep(0.02)
    assert world.received == [b"a"], "it was asked for before, this one was not"
    room, world.room = world.room, None
    room.set_result(None)
    await until(lambda: world.received == [b"a", b"b"])


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (grpc.aio.EOF, "ended"),
        (error_of(grpc.StatusCode.UNAVAILABLE, "reset"), "reset"),
        (error_of(grpc.StatusCode.INTERNAL, ""), "INTERNAL"),
        (asyncio.CancelledError(), "cancelled"),
        (b"!", "nonsense"),
    ],
)
async def test_a_stream_that_ends_is_opened_again(world, end, reason):
    world.calls[0].inbox.put_nowait(end)
    await until(lambda: world.opened == [1, 2])
    assert len(world.broken) == 1
    assert reason in world.broken[0]
    assert world.calls[0].cancelled
    assert world.stream.is_open
    world.queue.append(b"on the second")
    world.stream.wake()
    await until(lambda: world.calls[1].written)
    assert world.calls[0].written == []


async def test_a_writer_that_fails_ends_the_stream_too(world):
    world.queue.append(ValueError("cannot be encoded"))
    world.stream.wake()
    await until(lambda: world.opened == [1, 2])
    assert len(world.broken) == 1


async def test_pauses_grow_while_the_node_is_unreachable_and_reset(world):
    world.connects = False
    world.calls[0].inbox.put_nowait(grpc.aio.EOF)
    await until(lambda: len(world.calls) > 8)
    longest = REOPEN_DELAYS_S[-1]
    assert world.slept[:7] == [*REOPEN_DELAYS_S, longest, longest]
    assert not world.stream.is_open
    world.connects = True
    await until(lambda: world.stream.is_open)
    count = len(world.slept)
    world.calls[-1].inbox.put_nowait(grpc.aio.EOF)
    await until(lambda: len(world.slept) > count)
    assert world.slept[count] == REOPEN_DELAYS_S[0]
    assert all(reason == "refused" for reason in world.broken[1:-1])


async def test_a_silent_connection_can_be_broken(world):
    world.stream.reset()
    await until(lambda: world.opened == [1, 2])
    assert len(world.broken) == 1
    assert world.calls[0].cancelled


async def test_breaking_without_a_connection_is_harmless(world):
    await world.owner.close(timeout_s=1)
    world.stream.reset()
    assert len(world.calls) == 1


async def test_cancelling_ends_it_for_good(world):
    await world.owner.close(timeout_s=1)
    assert world.task.cancelled()
    assert world.broken == []
    assert len(world.calls) == 1
    world.stream.end("closed")
    assert not world.stream.is_open
    assert world.broken == ["closed"]


async def test_our_side_can_be_closed_while_the_peer_still_sends(world):
    (first,) = world.calls
    world.stream.end_writing()
    await until(lambda: first.closed)
    world.queue.append(b"for the next one")
    world.stream.wake()
    first.inbox.put_nowait(b"late answer")
    first.inbox.put_nowait(grpc.aio.EOF)
    await until(lambda: len(world.calls) == 2 and world.calls[1].written)
    assert world.received == [b"late answer"]
    assert (first.written, world.calls[1].written) == ([], [b"for the next one"])
    assert not world.calls[1].closed
