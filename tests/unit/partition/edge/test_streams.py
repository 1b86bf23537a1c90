"""The node's side of a stream: back pressure, invalid messages, a failing writer."""

import asyncio
import os
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import OUTCOME_APPENDED
from highwater.hop.append_codec import decode_response
from highwater.hop.append_codec import encode_request as encode_append
from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge import streams
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import (
    OutQueue,
    Replies,
    append_stream,
    fetch_stream,
    serve_stream,
)
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.hop.test_fetch_codec import encode_request, parse_response, work_of
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says


class Aborted(Exception):
    """What gRPC raises inside a handler that aborts."""


class Context:
    """One stream's context."""

    def __init__(self):
        self.inbox = asyncio.Queue()
        self.written = []
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.reads = 0
        self.failure = None

    async def read(self):
        self.reads += 1
        return await self.inbox.get()

    async def write(self, message):
        await self.may_write.wait()
        if self.failure is not None:
            raise self.failure
        self.written.append(message)

    async def abort(self, code, details):
        raise Aborted(code, details)


@pytest.fixture
def context():
    return Context()


async def run(coroutine):
    async with asyncio.timeout(5):
        return await coroutine


async def test_answers_are_in_order_and_the_stream_ends(context):
    out = OutQueue(context)
    context.inbox.put_nowait(b"a")
    context.inbox.put_nowait(b"b")
    serving = asyncio.create_task(serve_stream(context, out, lambda m: out.put(m.upper())))
    await until(lambda: context.written == [b"A", b"B"])
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)


async def test_nothing_is_read_while_too_much_waits_to_be_written(context, monkeypatch):
    monkeypatch.setattr(streams, "OUT_BYTES_MAX", 100)
    out = OutQueue(context)
    context.may_write.clear()
    for _ in range(10):
        context.inbox.put_nowait(b"x" * 60)
    serving = asyncio.create_task(serve_stream(context, out, out.put))
    await asyncio.sleep(0.05)
    assert context.reads <= 4
    context.may_write.set()
    await until(lambda: len(context.written) == 10)
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)


async def test_invalid_messages_are_refused_with_a_reason(context):
    def receive(_message):
        raise HopFramingError("what is this")

    context.inbox.put_nowait(b"?")
    with pytest.raises(Aborted, match="what is this"):
        await run(serve_stream(context, OutQueue(context), receive))


async def test_a_writer_that_fails_ends_the_stream(context):
    out = OutQueue(context)
    context.failure = ZeroDivisionError("cannot write")
    context.inbox.put_nowait(b"a")
    with pytest.raises(ConnectionError) as caught:
        await run(serve_stream(context, out, out.put))
    assert caught.value.__cause__ is context.failure


async def test_a_cancelled_stream_is_cancelled(context):
    serving = asyncio.create_task(serve_stream(context, OutQueue(context), lambda _m: None))
    await asyncio.sleep(0.01)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run(serving)


async def test_a_fetch_stream_that_ends_leaves_no_waiting_fetch_and_no_file(context, tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    node.append(make_batch())
    serving = asyncio.create_task(fetch_stream(node.plane, context))
    context.may_write.clear()
    waiting = [work_of(n, ask(1)) for n in range(3)]
    ready = [work_of(n, ask(0)) for n in range(3, 6)]
    context.inbox.put_nowait(encode_request([*waiting, *ready], [], True))
    await until(lambda: node.plane.waiting_fetches == 3)
    context.inbox.put_nowait(encode_request([], [1], True))
    await until(lambda: node.plane.waiting_fetches == 2)
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)
    assert node.plane.waiting_fetches == 0
    assert replica.waiters.fetches == {}


async def test_too_many_waiting_fetches_end_the_stream(context, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "WAITING_CALLS_MAX", 3)
    node = Node(tmp_path)
    node.add()
    context.inbox.put_nowait(encode_request([work_of(n, ask(0)) for n in range(3)], [], False))
    context.inbox.put_nowait(encode_request([work_of(9, ask(0))], [], False))
    with pytest.raises(Aborted, match="3 fetches"):
        await run(fetch_stream(node.plane, context))
    assert node.plane.waiting_fetches == 0


async def test_answered_fetches_share_messages(context, tmp_path):
    node = Node(tmp_path)
    node.add()
    node.append(make_batch())
    serving = asyncio.create_task(fetch_stream(node.plane, context))
    works = [work_of(n, ask(0)) for n in range(1, 50)]
    context.inbox.put_nowait(encode_request(works, [], True))
    await until(lambda: context.written)
    (message,) = context.written
    answers, begun_messages = parse_response(message)
    assert [answer.call_id for answer in answers] == list(range(1, 50))
    assert begun_messages == 1
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)


async def test_bytes_are_not_read_far_ahead_of_a_peer_that_does_not(context, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "READ_AHEAD_BYTES", 2500)
    node = Node(tmp_path)
    node.add()
    batch = make_batch(value=b"x" * 1000)
    node.append(batch)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *args: read.append(1) or pread(*args))
    context.may_write.clear()
    serving = asyncio.create_task(fetch_stream(node.plane, context))
    works = [work_of(n, ask(0)) for n in range(1, 50)]
    context.inbox.put_nowait(encode_request(works, [], False))
    await until(lambda: read)
    await asyncio.sleep(0.02)
    assert len(read) <= 2 * 3, "what is being written, and as much behind it"
    context.may_write.set()
    answers = []

    def answered():
        answers[:] = [a for message in context.written for a in parse_response(message)[0]]
        return len(answers) == len(works)

    await until(answered)
    assert [answer.call_id for answer in answers] == list(range(1, 50))
    assert {bytes(answer.payload)[61:] for answer in answers} == {bytes(batch[61:])}
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)


async def test_waiting_fetches_count_as_begun(context, tmp_path):
    node = Node(tmp_path)
    node.add()
    serving = asyncio.create_task(fetch_stream(node.plane, context))
    context.inbox.put_nowait(encode_request([work_of(1, ask(0))], [], True))
    await until(lambda: context.written)
    assert parse_response(context.written[0]) == ([], 1)
    node.append(make_batch())
    await until(lambda: len(context.written) > 1)
    answers, begun_messages = parse_response(context.written[1])
    assert [answer.call_id for answer in answers] == [1]
    assert begun_messages == 0
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)


@pytest.mark.parametrize("message", [b"", b"\xff" * 20, b"\x0d\x07\0\0\0\xff\xff"])
async def test_invalid_messages_end_an_append_stream(context, tmp_path, message):
    context.inbox.put_nowait(message)
    with pytest.raises(Aborted) as caught:
        await run(append_stream(Node(tmp_path).plane, context))
    assert caught.value.args[0] is grpc.StatusCode.INVALID_ARGUMENT


# ---- the node stops ----


def told(written):
    """Messages reported as read, (message, base offsets) of results, and whether that is all."""
    responses = [decode_response(message) for message in written]
    return (
        [i for response in responses for i in response.appended_message_ids],
        [(r.message_id, list(r.base_offsets)) for response in responses for r in response.results],
        any(response.ending for response in responses),
    )


def append_message(message_id, *batches, epoch=EPOCH, acks=1):
    groups = [group_of(*batches, sink=Sink(), epoch=epoch, acks=acks)]
    return encode_append(message_id, groups, 0)


async def test_read_messages_are_answered_and_no_more_are_read(context, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serving = asyncio.create_task(append_stream(node.plane, context, drain))
    context.inbox.put_nowait(append_message(1, make_batch()))
    await until(lambda: context.written)
    context.may_write.clear()
    context.inbox.put_nowait(append_message(2, make_batch()))
    await until(context.inbox.empty)
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0.01)
    context.inbox.put_nowait(append_message(3, make_batch()))
    context.may_write.set()
    await until(lambda: told(context.written)[2])
    assert not serving.done(), "the peer may be writing"
    context.inbox.put_nowait(append_message(4, make_batch()))
    context.inbox.put_nowait(grpc.aio.EOF)
    assert await run(stopping)
    await run(serving)
    assert told(context.written) == ([1, 2], [(1, [0]), (2, [1])], True)
    assert node.plane.replicas[TOPIC, 0].log.log_end_offset == 2


async def waiting_for_a_commit(context, node, drain):
    """A stream with an acks=all append that is then stopped; its peer closes its side."""
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    serving = asyncio.create_task(append_stream(node.plane, context, drain))
    context.inbox.put_nowait(append_message(1, make_batch(), acks=-1))
    await until(lambda: context.written)
    return replica, serving


async def test_the_end_of_a_stream_waits_for_a_commit(context, tmp_path):
    drain = StreamDrain()
    replica, serving = await waiting_for_a_commit(context, Node(tmp_path), drain)
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0)
    context.inbox.put_nowait(grpc.aio.EOF)
    await asyncio.sleep(0.02)
    assert not serving.done()
    follower_fetched(replica, 2, 1)
    assert await run(stopping)
    await run(serving)
    assert told(context.written) == ([1], [(1, [0])], True)


async def test_the_wait_for_a_commit_has_an_end(context, tmp_path):
    drain = StreamDrain()
    _, serving = await waiting_for_a_commit(context, Node(tmp_path), drain)
    stopping = asyncio.create_task(drain.run(0.1))
    await asyncio.sleep(0)
    context.inbox.put_nowait(grpc.aio.EOF)
    assert await run(stopping)
    await run(serving)
    assert told(context.written) == ([1], [], True)


async def test_a_commit_that_takes_too_long_is_answered_once(context, tmp_path):
    replica, serving = await waiting_for_a_commit(context, Node(tmp_path), StreamDrain())
    (wait,) = replica.waiters.commits
    assert 0 <= asyncio.get_running_loop().time() * 1000 - wait.group.deadline_ms < 5_000
    replica.answers.expire(wait.group.deadline_ms - 1)
    assert len(replica.waiters.commits) == 1
    replica.answers.expire(wait.group.deadline_ms)
    await until(lambda: len(context.written) == 2)
    (result,) = decode_response(context.written[1]).results
    (failure,) = result.failures
    assert (failure.error_code, failure.outcome) == (ErrorCode.REQUEST_TIMED_OUT, OUTCOME_APPENDED)
    follower_fetched(replica, 2, 1)
    context.inbox.put_nowait(grpc.aio.EOF)
    await run(serving)
    assert len(context.written) == 2
    assert replica.high_watermark == 1, "the record stays"


async def test_the_wait_for_a_peer_that_does_not_close_its_side_has_an_end(context, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serving = asyncio.create_task(append_stream(node.plane, context, drain))
    context.inbox.put_nowait(append_message(1, make_batch()))
    await until(lambda: context.written)
    assert await run(drain.run(0.1))
    await run(serving)
    assert told(context.written) == ([1], [(1, [0])], True)


async def test_a_stream_whose_answers_cannot_be_written_does_not_end_in_order(context):
    drain = StreamDrain()
    context.may_write.clear()
    out = OutQueue(context)
    context.inbox.put_nowait(b"a")
    serving = asyncio.create_task(serve_stream(context, out, out.put, drain))
    await until(context.inbox.empty)
    assert await run(drain.run(0.05))
    with pytest.raises(ConnectionError):
        await run(serving)


async def test_the_end_of_a_stream_does_not_wait_for_a_long_poll(context, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serving = asyncio.create_task(fetch_stream(node.plane, context, drain))
    context.inbox.put_nowait(encode_request([work_of(1, ask(0))], [], True))
    await until(lambda: node.plane.waiting_fetches == 1)
    assert await run(drain.run(2))
    await run(serving)
    assert node.plane.waiting_fetches == 0


async def test_a_stream_that_comes_too_late(context):
    drain = StreamDrain()
    await drain.run(0)
    with pytest.raises(Aborted) as caught:
        await run(serve_stream(context, OutQueue(context), lambda _m: None, drain))
    assert caught.value.args[0] is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_can_be_cancelled_while_the_node_stops(context):
    drain = StreamDrain()
    out = OutQueue(context)
    context.may_write.clear()
    context.inbox.put_nowait(b"a")
    serving = asyncio.create_task(serve_stream(context, out, out.put, drain))
    await until(context.inbox.empty)
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0.01)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run(serving)
    assert await run(stopping)


async def test_large_coordinator_replies_get_their_own_messages():
    written = []

    async def write(message):
        written.append(pb.CoordinateResponse.FromString(message))

    out = Replies(SimpleNamespace(write=write))
    sizes = [400_000] * 4 + [3 << 20] + [10] * 3
    for call_id, size in enumerate(sizes):
        out.replies.append(pb.CoordinatorReply(call_id=call_id, body=bytes(size)))
    out.wake()
    running = asyncio.create_task(out.run())
    await until(lambda: sum(len(one.replies) for one in written) == len(sizes))
    running.cancel()
    told = [[reply.call_id for reply in one.replies] for one in written]
    assert told == [[0, 1], [2, 3], [4], [5, 6, 7]]
