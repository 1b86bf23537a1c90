"""Fetches over a real stream: bytes or references, long polls, cancellation, a node that dies."""

import asyncio
import os

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients import fetch_stream
from highwater.gateway.clients.fetch_stream import FetchStream
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop import fetch_codec
from highwater.hop.fetch import SMALL_RANGE
from highwater.hop.fetch_codec import ResponseWriter, decode_request, works_of
from highwater.hop.framing import PLACEHOLDER, HopFramingError, frame, joined
from highwater.hop.segment_files import SegmentFiles
from highwater.kafka.error_codes import ErrorCode
from highwater.model.steps import finish
from tests.support.fake_calls import FakeChannel
from tests.support.log_batches import make_batch
from tests.support.looked_at import longest_step
from tests.unit.gateway.clients.partition_node import until
from tests.unit.partition.data_plane.node import Fetched, ask, stored


def records_of(result):
    if isinstance(result.records, bytes | bytearray | memoryview):
        return bytes(result.records)
    return os.pread(result.records.fd, result.records.length, result.records.position)


def reference_link(node, open_link):
    (node.directory / ".highwater_incarnation").write_text("token\n")
    return open_link(node.state("token", readable=True))


@pytest.fixture
async def by_reference(node, open_link):
    return reference_link(node, open_link)


@pytest.fixture(params=["bytes", "references"])
async def ready(request, node, open_link):
    if request.param == "references":
        link = reference_link(node, open_link)
        assert link.reads_files
    else:
        link = open_link()
        assert not link.reads_files
    await until(lambda: link._fetch.stream.is_open)
    return link


async def answered(link, *asked, **spec):
    fetched = Fetched(asked, **spec)
    link.fetch(fetched.work)
    await until(lambda: fetched.answers)
    return fetched


async def test_answers_are_the_logs_bytes(node, ready):
    for n in range(3):
        node.append(make_batch(value=b"%d" % n * 100))
    replica = node.plane.replicas[ask(0).topic_id, 0]
    fetched = await answered(ready, ask(1), ask(9), ask(0, 1))
    size = len(stored(replica)) // 3
    assert fetched.codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE, 0]
    assert fetched.sizes == [2 * size, 0, 0]
    assert records_of(fetched.results[0]) == stored(replica)[size:]
    assert fetched.results[0].high_watermark == 3
    fetched.results[0].release()


async def test_a_long_answer_arrives_whole(node, ready):
    for n in range(6):
        node.append(make_batch(value=bytes([n]) * 700_000))
    replica = node.plane.replicas[ask(0).topic_id, 0]
    small = answered(ready, ask(5))
    large = answered(ready, ask(0, max_bytes=1 << 26), max_bytes=1 << 26)
    large, small = await asyncio.gather(large, small)
    assert large.sizes == [len(stored(replica))]
    assert records_of(large.results[0]) == stored(replica)
    assert len(stored(replica)) > 4 << 20
    large.results[0].release()
    small.results[0].release()


async def test_bytes_over_the_stream_are_limited(node, link):
    for n in range(11):
        node.append(make_batch(value=bytes([n]) * 1_000_000))
    await until(lambda: link._fetch.stream.is_open)
    fetched = await answered(link, ask(0, max_bytes=1 << 26), max_bytes=1 << 26)
    assert 7 << 20 < fetched.sizes[0] <= 8 << 20


async def test_an_append_wakes_a_long_poll(node, ready):
    fetched = Fetched((ask(0),), max_wait_ms=30_000)
    ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 1)
    node.append(make_batch())
    await until(lambda: fetched.answers)
    assert fetched.sizes == [len(make_batch())]
    fetched.results[0].release()


async def test_cancelling_reaches_the_node(node, ready):
    fetched = [Fetched((ask(0),), max_wait_ms=30_000) for _ in range(3)]
    for one in fetched:
        ready.fetch(one.work)
    await until(lambda: node.plane.waiting_fetches == 3)
    ready.cancel_fetch(fetched[1].work)
    await until(lambda: node.plane.waiting_fetches == 2)
    unsent = Fetched((ask(0),), max_wait_ms=30_000)
    ready.fetch(unsent.work)
    ready.cancel_fetch(unsent.work)
    node.append(make_batch())
    await until(lambda: fetched[0].answers and fetched[2].answers)
    await asyncio.sleep(0.05)
    assert fetched[1].answers == 0
    assert unsent.answers == 0
    fetched[0].results[0].release()
    fetched[2].results[0].release()


async def test_fetches_from_a_dead_node_fail_until_it_restarts(node, ready):
    fetched = Fetched((ask(0), ask(0, 1)), max_wait_ms=30_000)
    ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 1)
    await node.kill()
    await until(lambda: fetched.answers)
    assert fetched.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert node.plane.waiting_fetches == 0, "the node forgets the fetches of a dead stream"
    await until(lambda: not ready._fetch.stream.is_open)
    assert (await answered(ready, ask(0))).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await node.start()
    await until(lambda: ready._fetch.stream.is_open)
    assert (await answered(ready, ask(0), max_wait_ms=0)).codes == [0]


async def test_closing_the_link_answers_waiting_and_later_fetches(node, ready):
    fetched = Fetched((ask(0),), max_wait_ms=30_000)
    ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 1)
    await ready.close()
    assert fetched.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (await answered(ready, ask(0))).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await until(lambda: node.plane.waiting_fetches == 0)


async def test_calls_to_a_fenced_node_end(node, ready):
    """It may hang with its stream open, and no longer leads anything."""
    fetched = Fetched((ask(0), ask(0, 1)), max_wait_ms=30_000)
    ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 1)
    ready.set_fenced(True)
    finish(ready.ending_waits())
    assert fetched.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert (await answered(ready, ask(0))).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await until(lambda: node.plane.waiting_fetches == 0)
    ready.set_fenced(False)
    assert (await answered(ready, ask(0), max_wait_ms=0)).codes == [0]
    assert fetched.answers == 1, "what the node had to say came too late"


async def test_many_fetches_of_a_fenced_node_end_in_steps(node, ready):
    """Ten thousand answers in one turn of the loop would stop all clients for half a second."""
    sent = [Fetched((ask(0),), max_wait_ms=30_000) for _ in range(60)]
    for fetched in sent:
        ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 60)
    queued = [Fetched((ask(0),), max_wait_ms=30_000) for _ in range(40)]
    for fetched in queued:
        ready.fetch(fetched.work)

    def answers():
        return sum(fetched.answers for fetched in (*sent, *queued))

    ready.set_fenced(True)
    assert answers() == 0
    steps = ready.ending_waits()
    next(steps)
    ready.cancel_fetch(sent[59].work)
    new = Fetched((ask(0),))
    ready.fetch(new.work)
    assert new.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it does not wait at all"
    await asyncio.sleep(0.02)  # The stream goes on meanwhile.
    _, longest = longest_step(steps, answers)
    assert longest <= 16
    assert sent[59].answers == 0
    others = [*sent[:59], *queued]
    assert [f.codes for f in others] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 99
    await until(lambda: node.plane.waiting_fetches == 0)


async def test_many_fetches_of_a_stream_that_breaks_end_in_steps(node, ready):
    sent = [Fetched((ask(0),), max_wait_ms=30_000) for _ in range(100)]
    for fetched in sent:
        ready.fetch(fetched.work)
    await until(lambda: node.plane.waiting_fetches == 100)

    def answers():
        return sum(fetched.answers for fetched in sent)

    ready._fetch.stream.reset()
    assert answers() == 16
    ready.cancel_fetch(sent[99].work)
    new = Fetched((ask(0),))
    ready.fetch(new.work)
    assert new.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER], "it does not wait at all"
    while answers() < 99:
        before = answers()
        await asyncio.sleep(0)
        assert answers() - before <= 16
    assert sent[99].answers == 0
    assert [f.codes for f in sent[:99]] == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 99
    await until(lambda: ready._fetch.stream.is_open)
    assert ready._fetch._cancelled == [], "the node has never heard of it on this connection"
    assert (await answered(ready, ask(0), max_wait_ms=0)).codes == [0]


async def test_small_records_come_as_bytes_and_large_ones_as_references(node, by_reference):
    await until(lambda: by_reference._fetch.stream.is_open)
    node.append(make_batch(value=b"small"))
    node.append(make_batch(value=b"large" * 1000), partition=1)
    memory = by_reference._fetch._budget
    fetched = await answered(by_reference, ask(0), ask(0, 1), memory=memory)
    for result, is_copied in zip(fetched.results, (True, False), strict=True):
        replica = node.plane.replicas[ask(0).topic_id, 0 if is_copied else 1]
        assert isinstance(result.records, memoryview) == is_copied
        assert records_of(result) == stored(replica)
        result.release()


async def test_a_replaced_file_is_an_empty_answer(node, by_reference):
    await until(lambda: by_reference._fetch.stream.is_open)
    node.append(make_batch())
    replica = node.plane.replicas[ask(0).topic_id, 0]
    (segment,) = node.directory.glob("orders-0/*.log")
    content = segment.read_bytes()
    segment.unlink()
    segment.write_bytes(content)  # A new inode, as after compaction.
    fetched = await answered(by_reference, ask(0))
    assert (fetched.codes, fetched.sizes) == ([0], [0])
    assert replica.log.log_end_offset == 1


async def test_a_malformed_answer_breaks_the_stream_and_loses_no_fetch(node, ready):
    stream = ready._fetch.stream
    received = stream._received

    def garble(message):
        stream._received = received
        received(message[:-1])

    stream._received = garble
    node.append(make_batch())
    assert (await answered(ready, ask(0))).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await until(lambda: stream.is_open)
    again = await answered(ready, ask(0))
    assert again.sizes == [len(make_batch())]
    again.results[0].release()


async def test_unreadable_bytes_are_an_error_of_the_fetch_and_not_of_the_stream(node, link):
    await until(lambda: link._fetch.stream.is_open)
    node.append(make_batch())
    (segment,) = node.directory.glob("orders-0/*.log")
    os.truncate(segment, 10)
    fetched = await answered(link, ask(0))
    assert fetched.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    node.append(make_batch(), partition=1)
    assert (await answered(link, ask(0, 1))).sizes == [len(make_batch())]


@pytest.fixture
def bugs():
    return []


@pytest.fixture
async def unconnected(bugs):
    """A fetch stream whose messages the test passes on."""
    made = FetchStream(FakeChannel(), SegmentFiles([], ""), MemoryBudget(1000), on_bug=bugs.append)
    made.stream.start()
    made.stream.is_open = True
    yield made
    made.stream.stop()
    assert bugs == []


def test_bytes_are_asked_for_only_while_there_is_memory_for_them(unconnected):
    budget = unconnected._budget

    def asked(*memories):
        for memory in memories:
            unconnected.fetch(Fetched([ask(0)], memory=memory).work)
        unconnected._outstanding = 0
        return decode_request(unconnected._next_message()).copied_bytes_max

    assert asked(budget, budget) == SMALL_RANGE, "it cannot read files"
    assert asked(budget, None) == 0, "one of them must hold none"
    budget.hold_replies(budget.replies_max)
    assert asked(budget) == 0
    budget.hold_replies(-budget.replies_max)
    assert asked(budget) == SMALL_RANGE


def test_only_very_small_records_are_asked_for_where_files_can_be_read(unconnected):
    """Others cost less as references."""
    unconnected._files.readable = True
    unconnected.fetch(Fetched([ask(0)], memory=unconnected._budget).work)
    assert decode_request(unconnected._next_message()).copied_bytes_max == 4096


def calls_in(message):
    return len(works_of(decode_request(message), lambda _work: None))


async def test_nothing_is_read_while_clients_do_not_read_answers(unconnected):
    budget = unconnected._budget
    (call,) = unconnected.stream._channel.calls
    await until(lambda: call.is_open)
    (begun,) = ResponseWriter(references=False).take(1)
    unconnected._outstanding = 9
    budget.hold_replies(budget.replies_max)
    for _ in range(3):
        call.answer(begun)
    assert unconnected._outstanding == 8, "it was on its way, the others are not read"
    budget.hold_replies(-1)
    budget.hold_replies(1)
    await asyncio.sleep(0.01)
    assert unconnected._outstanding == 8, "others were faster"
    budget.hold_replies(-1)
    await until(lambda: unconnected._outstanding == 6)
    call.answer(begun)
    assert unconnected._outstanding == 5


async def test_fetches_gather_while_two_messages_are_outstanding(unconnected):
    for _ in range(2):
        unconnected.fetch(Fetched([ask(0)]).work)
        assert calls_in(unconnected._next_message()) == 1
    for _ in range(3):
        unconnected.fetch(Fetched([ask(0)]).work)
    assert unconnected._next_message() is None
    (begun,) = ResponseWriter(references=False).take(1)
    unconnected._received(begun)
    assert calls_in(unconnected._next_message()) == 3
    assert unconnected._next_message() is None


async def test_a_broken_stream_has_nothing_outstanding(unconnected):
    for _ in range(2):
        unconnected.fetch(Fetched([ask(0)]).work)
        unconnected._next_message()
    unconnected._broken("gone")
    unconnected.fetch(Fetched([ask(0)]).work)
    assert calls_in(unconnected._next_message()) == 1


async def test_more_messages_begun_than_sent_are_refused(unconnected):
    unconnected.fetch(Fetched([ask(0)]).work)
    unconnected._next_message()
    (begun,) = ResponseWriter(references=False).take(2)
    with pytest.raises(HopFramingError):
        unconnected._received(begun)


def piece(call_id):
    """One byte of an answer that is not done, as `ResponseWriter` cuts them."""
    row = fetch_codec._ANSWER.pack(call_id, 0, 0, 1, False)
    header = pb.FetchResponse(header_bytes=PLACEHOLDER, answers=row)
    return joined(frame(header.SerializeToString(), [b"x"], 1))


@pytest.mark.parametrize("limit", ["PIECES_BYTES_MAX", "PIECES_MAX"])
def test_an_answer_in_pieces_has_an_end(unconnected, monkeypatch, limit):
    monkeypatch.setattr(fetch_stream, limit, 3)
    unconnected.fetch(Fetched([ask(0)]).work)
    unconnected._next_message()
    for _ in range(3):
        unconnected._received(piece(1))
    with pytest.raises(HopFramingError, match="without an end"):
        unconnected._received(piece(1))
