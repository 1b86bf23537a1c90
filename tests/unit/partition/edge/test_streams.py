"""The streams of gateways: appends, fetches and coordinator calls, until the node stops."""

import asyncio
import os

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import OUTCOME_APPENDED
from highwater.hop.append_codec import decode_response
from highwater.hop.append_codec import encode_request as encode_append
from highwater.hop.fetch import SMALL_RANGE
from highwater.hop.framing import joined
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge import streams
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import append_handler, coordinate_handler, fetch_handler
from highwater.rpc.status import Status, StatusCode
from tests.support.fake_calls import FakeServerCall
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import Coordinator, until
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.hop.test_fetch_codec import encode_request, parse_response, work_of
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says

OK = Status(StatusCode.OK)


@pytest.fixture
def call():
    return FakeServerCall()


@pytest.fixture
def failures():
    made = []
    yield made
    assert made == []


@pytest.fixture
def serve(call, failures):
    """Serves the call by what makes a handler, on a plane, with a drain."""

    def begin(make_handler, owner, drain=None):
        on_failure = lambda path, error: failures.append((path, error))  # noqa: E731
        call.serve(make_handler(owner, drain or StreamDrain(), on_failure))

    return begin


async def run(coroutine):
    async with asyncio.timeout(5):
        return await coroutine


async def ended(call):
    call.half_close()
    await until(lambda: call.status is not None)
    await asyncio.sleep(0)
    assert call.status == OK


async def test_a_fetch_stream_that_ends_leaves_no_waiting_fetch_and_no_file(call, serve, tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    node.append(make_batch())
    serve(fetch_handler, node.plane)
    call.stall()
    waiting = [work_of(n, ask(1)) for n in range(3)]
    ready = [work_of(n, ask(0)) for n in range(3, 6)]
    call.message(encode_request([*waiting, *ready], [], True))
    await until(lambda: node.plane.waiting_fetches == 3)
    call.message(encode_request([], [1], True))
    await until(lambda: node.plane.waiting_fetches == 2)
    call.lose()
    assert node.plane.waiting_fetches == 0
    assert replica.waiters.fetches == {}


async def test_too_many_waiting_fetches_end_the_stream(call, serve, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "WAITING_CALLS_MAX", 3)
    node = Node(tmp_path)
    node.add()
    serve(fetch_handler, node.plane)
    call.message(encode_request([work_of(n, ask(0)) for n in range(3)], [], False))
    assert node.plane.waiting_fetches == 3
    call.message(encode_request([work_of(9, ask(0))], [], False))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    assert "3 fetches" in call.status.details
    assert node.plane.waiting_fetches == 0


async def test_answered_fetches_share_messages(call, serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    node.append(make_batch())
    serve(fetch_handler, node.plane)
    works = [work_of(n, ask(0)) for n in range(1, 50)]
    call.message(encode_request(works, [], True))
    await until(lambda: call.written)
    (message,) = call.written
    answers, begun_messages = parse_response(message)
    assert [answer.call_id for answer in answers] == list(range(1, 50))
    assert begun_messages == 1
    await ended(call)


async def test_bytes_are_not_read_far_ahead_of_a_peer_that_does_not(
    call, serve, tmp_path, monkeypatch
):
    monkeypatch.setattr(streams, "READ_AHEAD_BYTES", 2500)
    node = Node(tmp_path)
    node.add()
    batch = make_batch(value=b"x" * 1000)
    node.append(batch)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *args: read.append(1) or pread(*args))
    call.stall()
    serve(fetch_handler, node.plane)
    works = [work_of(n, ask(0)) for n in range(1, 50)]
    call.message(encode_request(works, [], False))
    await asyncio.sleep(0.02)
    assert read == []
    call.make_room(1)
    await asyncio.sleep(0.02)
    assert len(read) == 3, "what is being written"
    call.make_room()
    answers = []

    def answered():
        answers[:] = [a for message in call.written for a in parse_response(message)[0]]
        return len(answers) == len(works)

    await until(answered)
    assert [answer.call_id for answer in answers] == list(range(1, 50))
    assert {bytes(answer.payload)[61:] for answer in answers} == {bytes(batch[61:])}
    await ended(call)


@pytest.fixture
def unread(call, serve, tmp_path, monkeypatch):
    """Begins 20 fetches of a batch by a peer that does not read yet: 5 fit into the read-ahead.

    Gives (the log's active segment, the batch).
    """
    node = Node(tmp_path)
    replica = node.add()
    batch = make_batch(value=b"x" * 1000)
    node.append(batch)
    monkeypatch.setattr(streams, "READ_AHEAD_BYTES", 5 * len(batch))

    async def begin(*, references):
        call.stall()
        serve(fetch_handler, node.plane)
        works = [work_of(n, ask(0)) for n in range(20)]
        call.message(encode_request(works, [], references, SMALL_RANGE))
        await asyncio.sleep(0.01)
        segment = replica.log.extent.active
        assert segment.pins == 15, "the others were copied"
        return segment, batch

    return begin


async def test_a_peer_that_does_not_read_fills_no_memory_with_small_records(call, unread):
    """Bytes up to the limit, then references; both kinds share the messages."""
    segment, batch = await unread(references=True)
    assert call.written == []
    call.make_room()
    await until(lambda: call.written)
    answers, _ = parse_response(call.written[0])
    assert [len(answer.payload) for answer in answers] == [len(batch)] * 5 + [0] * 15
    assert [len(answer.references) for answer in answers] == [0] * 5 + [1] * 15
    assert {bytes(answer.payload)[61:] for answer in answers[:5]} == {bytes(batch[61:])}
    assert segment.pins == 0
    call.message(encode_request([work_of(99, ask(0))], [], True, SMALL_RANGE))
    await until(lambda: len(call.written) > 1)
    ((answer,), _) = parse_response(call.written[1])
    assert len(answer.payload) == len(batch), "there is memory again"
    await ended(call)


async def test_a_peer_that_takes_bytes_gets_copies_within_the_limit(call, unread):
    """Of a gateway on another host, records in files are read when they are written."""
    segment, batch = await unread(references=False)
    call.make_room()

    def answers():
        return [a for message in call.written for a in parse_response(message)[0]]

    await until(lambda: len(answers()) == 20)
    assert {bytes(answer.payload)[61:] for answer in answers()} == {bytes(batch[61:])}
    assert segment.pins == 0
    await ended(call)


async def test_waiting_fetches_count_as_begun(call, serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    serve(fetch_handler, node.plane)
    call.message(encode_request([work_of(1, ask(0))], [], True))
    await until(lambda: call.written)
    assert parse_response(call.written[0]) == ([], 1)
    node.append(make_batch())
    await until(lambda: len(call.written) > 1)
    answers, begun_messages = parse_response(call.written[1])
    assert [answer.call_id for answer in answers] == [1]
    assert begun_messages == 0
    await ended(call)


@pytest.mark.parametrize("message", [b"", b"\xff" * 20, b"\x0d\x07\0\0\0\xff\xff"])
async def test_invalid_messages_end_an_append_stream(call, serve, tmp_path, message):
    serve(append_handler, Node(tmp_path).plane)
    call.message(message)
    assert call.status.code is StatusCode.INVALID_ARGUMENT


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
    return bytearray(joined(encode_append(message_id, groups, 0)))


async def test_read_messages_are_answered_and_no_more_are_read(call, serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serve(append_handler, node.plane, drain)
    call.message(append_message(1, make_batch()))
    await until(lambda: call.written)
    call.stall()
    call.message(append_message(2, make_batch()))
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0.01)
    call.message(append_message(3, make_batch()))
    call.make_room()
    await until(lambda: told(call.written)[2])
    assert call.status is None, "the peer may be writing"
    call.message(append_message(4, make_batch()))
    call.half_close()
    assert await run(stopping)
    await until(lambda: call.status == OK)
    assert told(call.written) == ([1, 2], [(1, [0]), (2, [1])], True)
    assert node.plane.replicas[TOPIC, 0].log.log_end_offset == 2


async def waiting_for_a_commit(call, serve, node, drain):
    """A stream with an acks=all append that is then stopped; its peer closes its side."""
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    serve(append_handler, node.plane, drain)
    call.message(append_message(1, make_batch(), acks=-1))
    await until(lambda: call.written)
    return replica


async def test_the_end_of_a_stream_waits_for_a_commit(call, serve, tmp_path):
    drain = StreamDrain()
    replica = await waiting_for_a_commit(call, serve, Node(tmp_path), drain)
    stopping = asyncio.create_task(drain.run(2))
    await asyncio.sleep(0)
    call.half_close()
    await asyncio.sleep(0.02)
    assert call.status is None
    follower_fetched(replica, 2, 1)
    assert await run(stopping)
    await until(lambda: call.status == OK)
    assert told(call.written) == ([1], [(1, [0])], True)


async def test_the_wait_for_a_commit_has_an_end(call, serve, tmp_path):
    drain = StreamDrain()
    await waiting_for_a_commit(call, serve, Node(tmp_path), drain)
    stopping = asyncio.create_task(drain.run(0.1))
    await asyncio.sleep(0)
    call.half_close()
    assert await run(stopping)
    await until(lambda: call.status == OK)
    assert told(call.written) == ([1], [], True)


async def test_a_commit_that_takes_too_long_is_answered_once(call, serve, tmp_path):
    replica = await waiting_for_a_commit(call, serve, Node(tmp_path), StreamDrain())
    (wait,) = replica.waiters.commits
    assert 0 <= asyncio.get_running_loop().time() * 1000 - wait.group.deadline_ms < 5_000
    replica.answers.expire(wait.group.deadline_ms - 1)
    assert len(replica.waiters.commits) == 1
    replica.answers.expire(wait.group.deadline_ms)
    await until(lambda: len(call.written) == 2)
    (result,) = decode_response(call.written[1]).results
    (failure,) = result.failures
    assert (failure.error_code, failure.outcome) == (ErrorCode.REQUEST_TIMED_OUT, OUTCOME_APPENDED)
    follower_fetched(replica, 2, 1)
    call.half_close()
    await until(lambda: call.status == OK)
    assert len(call.written) == 2
    assert replica.high_watermark == 1, "the record stays"


async def test_the_wait_for_a_peer_that_does_not_close_its_side_has_an_end(call, serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serve(append_handler, node.plane, drain)
    call.message(append_message(1, make_batch()))
    await until(lambda: call.written)
    assert await run(drain.run(0.1))
    await until(lambda: call.status == OK)
    assert told(call.written) == ([1], [(1, [0])], True)


async def test_the_end_of_a_stream_does_not_wait_for_a_long_poll(call, serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    drain = StreamDrain()
    serve(fetch_handler, node.plane, drain)
    call.message(encode_request([work_of(1, ask(0))], [], True))
    await until(lambda: node.plane.waiting_fetches == 1)
    assert await run(drain.run(2))
    await until(lambda: call.status == OK)
    assert node.plane.waiting_fetches == 0


@pytest.mark.parametrize("make_handler", [append_handler, fetch_handler, coordinate_handler])
async def test_a_stream_that_comes_too_late(call, serve, make_handler):
    drain = StreamDrain()
    await drain.run(0)
    serve(make_handler, None, drain)
    assert call.status.code is StatusCode.UNAVAILABLE


# ---- coordinator calls ----


def coordinate_message(*call_ids, cancelled=()):
    request = pb.CoordinateRequest(cancelled_call_ids=cancelled)
    for call_id in call_ids:
        request.calls.add(call_id=call_id, body=b"%d" % call_id)
    return bytearray(request.SerializeToString())


def replies_in(message):
    return pb.CoordinateResponse.FromString(message).replies


async def test_large_coordinator_replies_get_their_own_messages(call, serve):
    coordinator = Coordinator()
    serve(coordinate_handler, coordinator)
    sizes = [400_000] * 4 + [3 << 20] + [10] * 3
    call.message(coordinate_message(*range(1, len(sizes) + 1)))
    for asked, size in zip(coordinator.calls, sizes, strict=True):
        asked.reply(0, bytes(size))
    await until(lambda: len(call.written) == 4)
    told = [[reply.call_id for reply in replies_in(message)] for message in call.written]
    assert told == [[1, 2], [3, 4], [5], [6, 7, 8]]


async def test_a_reply_above_the_limit_is_an_error(call, serve, monkeypatch):
    monkeypatch.setattr(streams, "REPLY_BYTES_MAX", 10)
    coordinator = Coordinator()
    serve(coordinate_handler, coordinator)
    call.message(coordinate_message(1, 2))
    coordinator.calls[0].reply(0, bytes(10))
    coordinator.calls[1].reply(0, bytes(11))
    await until(lambda: call.written)
    (message,) = call.written
    told = [(reply.error_code, len(reply.body)) for reply in replies_in(message)]
    assert told == [(0, 10), (ErrorCode.UNKNOWN_SERVER_ERROR, 0)]


async def test_calls_of_a_stream_that_ends_are_cancelled(call, serve):
    coordinator = Coordinator()
    serve(coordinate_handler, coordinator)
    call.message(coordinate_message(1, 2, 3))
    coordinator.calls[1].reply(0, b"b")
    call.message(coordinate_message(cancelled=[1, 9]))
    assert coordinator.cancelled == [coordinator.calls[0]]
    call.lose()
    assert coordinator.cancelled == [coordinator.calls[0], coordinator.calls[2]]
    coordinator.calls[2].reply(0, b"late")
    await asyncio.sleep(0.01)
    assert call.written == []


async def test_too_many_waiting_calls_end_the_stream(call, serve, monkeypatch):
    monkeypatch.setattr(streams, "WAITING_CALLS_MAX", 2)
    serve(coordinate_handler, Coordinator())
    call.message(coordinate_message(1, 2, 3))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    assert "2 calls" in call.status.details


@pytest.mark.parametrize("make_handler", [fetch_handler, coordinate_handler])
async def test_other_malformed_messages_end_their_stream(call, serve, tmp_path, make_handler):
    serve(make_handler, Node(tmp_path).plane)
    call.message(b"\xff" * 9)
    assert call.status.code is StatusCode.INVALID_ARGUMENT
