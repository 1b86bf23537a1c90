"""A stream that is opened again whenever it ends, on a fake channel."""

import asyncio

import pytest

from highwater.hop.framing import HopFramingError
from highwater.hop.stream import REOPEN_DELAYS_S, Stream
from highwater.rpc.status import Status, StatusCode
from tests.support.fake_calls import FakeChannel


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


class World:
    """A channel whose calls the test keeps, and a stream on it."""

    def __init__(self):
        self.channel = FakeChannel()
        self.calls = self.channel.calls
        self.queue = []
        self.received, self.opened, self.broken, self.bugs = [], [], [], []
        self.stream = Stream(
            self.channel,
            "/service/Method",
            next_message=self.next_message,
            received=self.receive,
            opened=lambda: self.opened.append(len(self.calls)),
            broken=self.broken.append,
            on_bug=self.bugs.append,
        )
        self.stream.start()

    def next_message(self):
        if not self.queue:
            return None
        item = self.queue.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    def receive(self, message):
        if message.startswith(b"!"):
            raise HopFramingError("nonsense")
        if message.startswith(b"?"):
            raise KeyError("a bug")
        self.received.append(message)


@pytest.fixture
async def world():
    made = World()
    await until(lambda: made.stream.is_open)
    assert made.channel.paths == ["/service/Method"]
    yield made
    made.stream.stop()
    assert made.bugs == []


async def test_messages_go_both_ways(world):
    world.queue += [b"a", [b"b", memoryview(b"c")]]
    world.stream.wake()
    assert world.calls[0].written == [], "at the end of the turn"
    await asyncio.sleep(0)
    assert world.calls[0].written == [b"a", b"bc"]
    world.calls[0].answer(b"d")
    assert world.received == [b"d"]


async def test_messages_can_be_written_at_once(world):
    world.queue += [b"a", b"b"]
    world.stream.write()
    assert world.calls[0].written == [b"a", b"b"]


async def test_messages_keep_their_order_if_one_brings_the_next(world):
    take = world.stream._next_message

    def eager():
        message = take()
        world.stream.write()  # As when the owner finds more, while this one is on its way.
        return message

    world.stream._next_message = eager
    world.queue += [b"%d" % n for n in range(5)]
    world.stream.write()
    assert world.calls[0].written == [b"0", b"1", b"2", b"3", b"4"]


async def test_messages_wait_at_their_owner_while_the_peer_takes_none(world):
    call = world.calls[0]
    call.takes = False
    world.queue += [b"a", b"b"]
    world.stream.wake()
    await asyncio.sleep(0.01)
    assert (call.written, len(world.queue)) == ([], 2)
    call.make_room()
    assert call.written == [b"a", b"b"]


async def test_nothing_is_read_during_a_pause_also_on_the_next_connection(world):
    world.stream.pause_reading()
    world.calls[0].answer(b"a")
    world.queue.append(b"b")
    world.stream.wake()
    await until(lambda: world.calls[0].written == [b"b"])
    assert world.received == []
    world.calls[0].end()
    await until(lambda: world.opened == [1, 2])
    world.calls[1].answer(b"c")
    assert world.received == [], "the first message went with its connection"
    world.stream.resume_reading()
    assert world.received == [b"c"]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda call: call.end(), "the node ended the stream"),
        (lambda call: call.end(Status(StatusCode.UNAVAILABLE, "reset")), "reset"),
        (lambda call: call.end(Status(StatusCode.INTERNAL)), "INTERNAL"),
        (lambda call: call.answer(b"!"), "nonsense"),
    ],
    ids=["ended", "lost", "nameless", "malformed"],
)
async def test_a_stream_that_ends_is_opened_again(world, end, reason):
    world.stream._attempt = 3
    end(world.calls[0])
    assert not world.stream.is_open
    await until(lambda: world.opened == [1, 2])
    assert len(world.broken) == 1
    assert reason in world.broken[0]
    assert world.calls[0].ended is not None
    assert world.stream.is_open
    world.queue.append(b"on the second")
    world.stream.wake()
    await until(lambda: world.calls[1].written)
    assert world.calls[0].written == []


@pytest.mark.parametrize("where", ["next_message", "received", "opened", "broken"])
async def test_a_bug_is_reported_and_the_stream_opened_again(world, where):
    def fail(*_args):
        setattr(world.stream, f"_{where}", before)
        raise ValueError(where)

    before = getattr(world.stream, f"_{where}")
    setattr(world.stream, f"_{where}", fail)
    if where == "next_message":
        world.stream.wake()
    elif where == "received":
        world.calls[0].answer(b"a")
    else:
        world.calls[0].end()
    await until(lambda: world.bugs and world.stream.is_open)
    assert [str(bug) for bug in world.bugs] == [where]
    told = {"next_message": 1, "received": 1, "opened": 2, "broken": 0}
    assert len(world.broken) == told[where]
    world.bugs.clear()
    world.queue.append(b"a")
    world.stream.wake()
    await until(lambda: world.calls[-1].written == [b"a"])


async def test_pauses_grow_while_the_node_is_unreachable_and_reset(world, monkeypatch):
    loop = asyncio.get_running_loop()
    delays = []

    def call_later(delay_s, callback, *args):
        if callback == world.stream._begin:
            delays.append(delay_s)
            delay_s = 0
        return real(delay_s, callback, *args)

    real = loop.call_later
    monkeypatch.setattr(world.stream, "_loop", LoopWith(loop, call_later))
    world.channel.connects = False
    world.calls[0].end()
    await until(lambda: len(world.calls) > 8)
    longest = REOPEN_DELAYS_S[-1]
    assert delays[:7] == [*REOPEN_DELAYS_S, longest, longest]
    assert not world.stream.is_open
    world.channel.connects = True
    await until(lambda: world.stream.is_open)
    count = len(delays)
    world.calls[-1].end()
    assert delays[count:] == [REOPEN_DELAYS_S[0]]
    assert all(reason == "refused" for reason in world.broken[1:-1])


class LoopWith:
    """A loop with another `call_later`."""

    def __init__(self, loop, call_later):
        self.call_soon = loop.call_soon
        self.call_later = call_later


async def test_a_silent_connection_can_be_broken(world):
    world.stream.reset()
    assert world.broken == ["the stream was reset"]
    await until(lambda: world.opened == [1, 2])
    assert world.calls[0].cancelled


async def test_a_stopped_stream_stays_so(world):
    world.stream.stop()
    world.stream.reset()
    world.stream.wake()
    await asyncio.sleep(0.05)
    assert world.broken == []
    assert len(world.calls) == 1
    assert world.calls[0].cancelled
    world.stream.end("closed")
    assert not world.stream.is_open
    assert world.broken == ["closed"]


async def test_a_stream_that_waits_to_be_opened_again_can_be_stopped(world):
    world.calls[0].end()
    world.stream.stop()
    await asyncio.sleep(2 * REOPEN_DELAYS_S[0])
    assert len(world.calls) == 1


async def test_our_side_can_be_closed_while_the_peer_still_sends(world):
    (first,) = world.calls
    world.stream.end_writing()
    assert first.closed
    world.queue.append(b"for the next one")
    world.stream.wake()
    first.answer(b"late answer")
    first.end()
    await until(lambda: len(world.calls) == 2 and world.calls[1].written)
    assert world.received == [b"late answer"]
    assert (first.written, world.calls[1].written) == ([], [b"for the next one"])
    assert not world.calls[1].closed
