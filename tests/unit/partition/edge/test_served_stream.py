"""A stream that the node serves: gathered answers, back pressure, bugs, and its end."""

import asyncio
import gc
import weakref

import pytest

from highwater.hop.framing import HopFramingError
from highwater.partition.edge import served_stream
from highwater.partition.edge.served_stream import ServedStream, stream_handler
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.rpc.status import Status, StatusCode
from tests.support.fake_calls import FakeServerCall
from tests.unit.gateway.clients.partition_node import until


class Echo:
    """Answers every message with itself, gathered into one message per write."""

    gathers = False
    awaits = False

    def __init__(self, stream):
        self.stream = stream
        self.gathered = []
        self.ends = 0
        self.pending = 0

    def receive(self, message):
        if message.startswith(b"?"):
            raise HopFramingError("what is this")
        if message.startswith(b"!"):
            raise ZeroDivisionError("a bug")
        self.stream.awaited += self.awaits
        if self.gathers:
            self.gathered.append(bytes(message))
        else:
            self.stream.put(message)
        self.stream.wake()

    def before_write(self):
        if self.gathered:
            self.stream.put(b"".join(self.gathered))
            self.gathered.clear()

    def under_way(self):
        return self.pending > 0

    def say_goodbye(self):
        return False

    def closed(self):
        self.ends += 1

    def memory(self):
        return 7 * self.pending


class Served:
    """One stream, and the node's drain."""

    def __init__(self, made=Echo, **options):
        self.drain = StreamDrain()
        self.failures = []
        self.made = made
        self.call = FakeServerCall()
        self.stream = ServedStream(self.call, self.drain, self.failed, self.serve, **options)
        self.call.serve(lambda _call: self.stream.callbacks)

    def serve(self, stream):
        self.echo = self.made(stream)
        return self.echo

    def failed(self, path, error):
        self.failures.append((path, error))

    async def stopped(self, timeout_s=2):
        async with asyncio.timeout(5):
            return await self.drain.run(timeout_s)


@pytest.fixture
async def served():
    made = Served()
    yield made
    assert made.failures == []
    assert made.echo.ends <= 1


async def test_answers_are_in_order_and_the_stream_ends_with_its_peer(served):
    served.call.message(b"a")
    served.call.message([b"b", b"c"][0])
    assert served.call.written == [], "they leave at the end of the turn"
    await asyncio.sleep(0)
    assert served.call.written == [b"a", b"b"]
    served.call.half_close()
    await asyncio.sleep(0)
    assert served.call.status == Status(StatusCode.OK)
    assert served.echo.ends == 1


async def test_a_peer_that_has_closed_its_side_gets_all_answers(served):
    served.echo.pending = 2
    served.call.message(b"a")
    served.call.half_close()
    await asyncio.sleep(0.01)
    assert (served.call.written, served.call.status) == ([b"a"], None)
    for left, message in ((1, b"b"), (0, b"c")):
        assert served.call.status is None
        served.echo.pending = left
        served.stream.put(message)
        served.stream.wake()
        await asyncio.sleep(0.01)
    assert served.call.written == [b"a", b"b", b"c"]
    assert served.call.status == Status(StatusCode.OK)


async def test_answers_that_a_peer_does_not_take_yet_come_before_the_end(served):
    served.call.stall()
    served.call.message(b"a")
    served.call.half_close()
    await asyncio.sleep(0.01)
    assert served.call.status is None
    served.call.make_room()
    assert served.call.written == [b"a"]
    assert served.call.status == Status(StatusCode.OK)


async def test_a_peer_that_has_closed_its_side_may_go(served):
    served.echo.pending = 1
    served.call.half_close()
    await asyncio.sleep(0.01)
    served.call.lose()
    assert served.echo.ends == 1
    assert await served.stopped(), "nobody waits for it"


async def test_a_node_that_stops_does_not_wait_for_what_is_under_way(served):
    served.echo.pending = 1
    served.call.message(b"a")
    served.call.half_close()
    await asyncio.sleep(0.01)
    assert served.call.status is None
    assert await served.stopped()
    assert served.call.written == [b"a"]
    assert served.call.status == Status(StatusCode.OK)


async def test_what_becomes_ready_in_a_turn_shares_a_message(served):
    served.echo.gathers = True
    for message in (b"a", b"b", b"c"):
        served.call.message(message)
    await asyncio.sleep(0)
    assert served.call.written == [b"abc"]


async def test_answers_gather_while_the_peer_takes_none(served):
    served.echo.gathers = True
    served.call.stall()
    for message in (b"a", b"b", b"c"):
        served.call.message(message)
        await asyncio.sleep(0)
    assert served.call.written == []
    served.call.make_room()
    assert served.call.written == [b"abc"]


async def test_nothing_is_read_while_too_much_waits_to_be_written(served, monkeypatch):
    monkeypatch.setattr(served_stream, "OUT_BYTES_MAX", 100)
    served.call.stall()
    for _ in range(10):
        served.call.message(b"x" * 60)
        await asyncio.sleep(0)
    assert served.call.reads == 2
    served.call.make_room()
    await until(lambda: len(served.call.written) == 10)


async def test_gathered_answers_count_too(served, monkeypatch):
    monkeypatch.setattr(served_stream, "OUT_BYTES_MAX", 100)
    served.call.stall()
    served.stream.gathered_bytes = 101
    served.stream.wake()
    served.call.message(b"a")
    assert served.call.reads == 0
    served.stream.gathered_bytes = 0
    served.call.make_room()
    await until(lambda: served.call.written == [b"a"])


async def test_a_turn_of_the_loop_sends_a_limited_part(served, monkeypatch):
    monkeypatch.setattr(served_stream, "TURN_BYTES", 100)
    for _ in range(6):
        served.call.message(b"x" * 50)
    await asyncio.sleep(0)
    assert len(served.call.written) == 2
    await until(lambda: len(served.call.written) == 6)


async def test_invalid_messages_are_refused_with_a_reason(served):
    served.call.message(b"?")
    assert served.call.status == Status(StatusCode.INVALID_ARGUMENT, "what is this")
    served.call.message(b"a")
    await asyncio.sleep(0.01)
    assert served.call.written == []
    assert served.echo.ends == 1


async def test_a_bug_is_reported_and_ends_the_stream():
    served = Served()
    served.call.message(b"!")
    assert served.call.status.code is StatusCode.UNKNOWN
    ((path, error),) = served.failures
    assert (path, type(error)) == (served.call.path, ZeroDivisionError)
    assert served.echo.ends == 1


async def test_a_bug_while_writing_is_reported_and_ends_the_stream():
    served = Served()
    served.echo.gathers = True
    served.echo.gathered = [None]
    served.stream.wake()
    await until(lambda: served.call.status)
    assert served.call.status.code is StatusCode.UNKNOWN
    assert [type(error) for _, error in served.failures] == [TypeError]


async def test_a_stream_whose_peer_is_gone_is_closed_once(served):
    served.call.message(b"a")
    served.call.lose()
    await asyncio.sleep(0.01)
    assert served.call.written == []
    assert served.echo.ends == 1
    assert await served.stopped(), "nobody waits for it"


# ---- the node stops ----


async def test_read_messages_are_answered_and_no_more_are_read(served):
    served.call.stall()
    served.call.message(b"a")
    stopping = asyncio.create_task(served.stopped())
    await asyncio.sleep(0.01)
    served.call.message(b"b")
    assert served.call.status is None
    served.call.make_room()
    assert await stopping
    assert served.call.written == [b"a"]
    assert served.call.status == Status(StatusCode.OK)


async def test_the_end_waits_for_answers_that_come_soon(served):
    served.echo.awaits = True
    served.call.message(b"a")
    stopping = asyncio.create_task(served.stopped())
    await asyncio.sleep(0.02)
    assert served.call.written == [b"a"]
    assert not stopping.done()
    served.stream.put(b"b")
    served.stream.awaited = 0
    served.stream.wake()
    assert await stopping
    assert served.call.written == [b"a", b"b"]


async def test_the_wait_for_answers_has_an_end(served):
    served.echo.awaits = True
    served.call.message(b"a")
    assert await served.stopped(0.05)
    assert served.call.status == Status(StatusCode.OK)


async def test_a_stream_whose_answers_cannot_be_written_does_not_end_in_order(served):
    served.call.stall()
    served.call.message(b"a")
    assert await served.stopped(0.05)
    assert served.call.status.code is StatusCode.CANCELLED
    assert served.echo.ends == 1


class Polite(Echo):
    """Says goodbye."""

    def say_goodbye(self):
        self.stream.put(b"bye")
        return True


async def test_a_peer_that_hears_of_the_end_may_still_write():
    served = Served(Polite)
    served.call.message(b"a")
    stopping = asyncio.create_task(served.stopped())
    await until(lambda: served.call.written == [b"a", b"bye"])
    served.call.message(b"unread")
    await asyncio.sleep(0.01)
    assert served.call.status is None
    served.call.half_close()
    assert await stopping
    assert served.call.status == Status(StatusCode.OK)
    assert served.call.written == [b"a", b"bye"]


async def test_no_goodbye_for_a_peer_that_has_closed_its_side():
    served = Served(Polite)
    served.echo.pending = 1
    served.call.half_close()
    assert await served.stopped()
    assert served.call.written == []
    assert served.call.status == Status(StatusCode.OK)


async def test_the_wait_for_a_peer_that_does_not_close_its_side_has_an_end():
    served = Served(Polite)
    assert await served.stopped(0.05)
    assert served.call.status == Status(StatusCode.OK)


async def test_a_stream_can_be_lost_while_the_node_stops(served):
    served.call.stall()
    served.call.message(b"a")
    stopping = asyncio.create_task(served.stopped())
    await asyncio.sleep(0.01)
    served.call.lose()
    assert await stopping
    assert served.echo.ends == 1


@pytest.fixture
def drain():
    return StreamDrain()


@pytest.fixture
def handler(drain):
    """Makes a method's handler; what fails is a bug of the test."""

    def make(**options):
        def failed(path, error):
            raise AssertionError(path) from error

        return stream_handler(Echo, drain, failed, **options)

    return make


async def test_last_streams_stop_after_the_others(drain, handler):
    calls = [FakeServerCall(name) for name in ("first", "last")]
    for call in calls:
        call.serve(handler(last=call.path == "last"))
    calls[0].stall()
    calls[0].message(b"a")
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0.02)
    assert [call.status for call in calls] == [None, None]
    calls[0].make_room()
    assert await stopping
    assert [call.status for call in calls] == [Status(StatusCode.OK)] * 2


async def test_a_stream_that_comes_too_late(drain, handler):
    assert await drain.run(1)
    call = FakeServerCall()
    call.serve(handler())
    assert call.status == Status(StatusCode.UNAVAILABLE, "the node stops")
    call.message(b"a")
    assert call.written == []


async def test_a_stream_that_is_over_does_not_keep_what_it_served():
    served = Served()
    served.call.lose()
    freed = weakref.ref(served.echo)
    gc.disable()
    try:
        served.echo = None
        assert freed() is None
    finally:
        gc.enable()
