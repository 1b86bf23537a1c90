"""Appends over a real stream: order, results, and batches in flight when the node dies."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.append_stream import AppendStream
from highwater.hop.append import OUTCOME_UNKNOWN, AppendGroup
from highwater.hop.append_codec import decode_request
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from tests.support.fake_calls import FakeChannel
from tests.support.log_batches import ManualClock, make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.hop.sinks import Owner, Sink, route
from tests.unit.partition.data_plane.node import EPOCH, stored

FAR_MS = ManualClock().now_ms + 60_000
ROUTES = [route(n, epoch=EPOCH) for n in range(3)]


def idempotent(sequence, producer_id=1, **spec):
    return make_batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **spec)


class Sender:
    """Sends through a link and keeps the results."""

    def __init__(self, link):
        self.link = link
        self.sink = Sink()
        self.count = 0

    def send(self, batch, *, partition=0, acks=1, deadline_ms=FAR_MS):
        data = memoryview(batch)
        self.link.append(
            ROUTES[partition], acks, data, len(data), self.sink, self.count, deadline_ms
        )
        self.count += 1

    async def all(self):
        await until(lambda: len(self.sink.results) == self.count)
        return self.sink


@pytest.fixture
async def sender(link):
    await until(lambda: link._append.stream.is_open)
    return Sender(link)


async def test_many_batches_of_many_turns_keep_their_order(node, sender):
    for turn in range(60):
        for n in range(20):
            sender.send(make_batch(value=b"%d" % (turn * 20 + n)), partition=n % 2)
        await asyncio.sleep(0)
    sink = await sender.all()
    assert set(sink.codes.values()) == {0}
    for partition in (0, 1):
        offsets = [sink.offsets[i] for i in range(partition, 1200, 2)]
        assert offsets == list(range(600))
    assert sender.link._append.idle


async def test_batches_sent_before_the_stream_is_open_wait_for_it(node, open_link):
    await node.kill()
    sender = Sender(open_link(node.state()))
    for _n in range(5):
        sender.send(make_batch())
    await asyncio.sleep(0.1)
    assert sender.sink.results == []
    await node.start()
    sink = await sender.all()
    assert sink.offsets == {n: n for n in range(5)}


async def test_results_are_mapped_to_their_batches(node, sender):
    sender.send(make_batch())
    sender.send(make_batch()[:-1] + b"?")
    sender.send(make_batch(), partition=2)
    sender.send(make_batch(), acks=-1)
    sender.send(make_batch(timestamps=(1, 2)))
    sink = await sender.all()
    assert sink.codes == {
        0: 0,
        1: ErrorCode.CORRUPT_MESSAGE,
        2: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        3: 0,
        4: 0,
    }
    assert [sink.offsets[n] for n in (0, 3, 4)] == [0, 1, 2]


async def test_a_batch_larger_than_a_message_goes_through(node, sender):
    sender.send(make_batch(value=bytes(1_040_000)))
    sender.send(make_batch())
    assert (await sender.all()).offsets == {0: 0, 1: 1}


class Lossy:
    """The node's data plane: it appends, and for a while the results are lost."""

    def __init__(self, node, *, appends):
        self.inner = node.plane.append
        self.appends = appends
        self.seen = []
        node.plane.append = self

    def __call__(self, groups):
        groups = list(groups)
        self.seen += groups
        if self.appends:
            self.inner([unheard(group) for group in groups])


def unheard(group):
    """The same batches, of which nobody hears what became."""
    made = AppendGroup(
        group.topic_id, group.partition, group.leader_epoch, group.acks, group.instance, Owner()
    )
    made.batches, made.nbytes, made.whole = group.batches, group.nbytes, group.whole
    return made


@pytest.mark.parametrize("appended", [True, False])
async def test_when_the_node_dies_idempotent_batches_are_sent_again_in_order(
    node, sender, appended
):
    lossy = Lossy(node, appends=appended)
    for n in range(5):  # The most that a client has in flight and a log remembers.
        sender.send(idempotent(n))
        sender.send(idempotent(n, producer_id=2), partition=1)
        await asyncio.sleep(0.01)
    await until(lambda: lossy.seen)
    await node.kill()
    for n in range(5, 9):
        sender.send(idempotent(n))
        await asyncio.sleep(0.01)
    assert sender.sink.results == []
    node.plane.append = lossy.inner
    await node.start()
    sink = await sender.all()
    assert set(sink.codes.values()) == {0}
    assert [sink.offsets[i] for i in (*range(0, 10, 2), *range(10, 14))] == list(range(9))
    assert [sink.offsets[i] for i in range(1, 10, 2)] == list(range(5))
    replica = node.plane.replicas[ROUTES[0].topic_id, 0]
    sequences = [view.header().base_sequence for view in iter_batches(stored(replica))]
    assert sequences == list(range(9)), "each once, in order"


async def test_when_the_node_dies_other_batches_are_unknown_and_unsent_ones_wait(node, sender):
    lossy = Lossy(node, appends=True)
    sender.send(make_batch(value=b"under way"))
    await until(lambda: lossy.seen)
    await node.kill()
    await until(lambda: sender.sink.results)
    failure = sender.sink.results[0][2]
    assert failure.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert failure.outcome == OUTCOME_UNKNOWN
    sender.send(make_batch(value=b"never sent"))
    await asyncio.sleep(0.1)
    assert len(sender.sink.results) == 1
    node.plane.append = lossy.inner
    await node.start()
    sink = await sender.all()
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: 0}
    assert sink.offsets[1] == 1, "the first had been appended, and was not sent again"


async def test_only_idempotent_batches_of_a_mixed_group_are_sent_again(node, sender):
    lossy = Lossy(node, appends=False)
    sender.send(idempotent(0))
    sender.send(make_batch())
    sender.send(idempotent(0, producer_id=2), partition=1)
    await until(lambda: lossy.seen)
    await node.kill()
    node.plane.append = lossy.inner
    await node.start()
    sink = await sender.all()
    assert sink.codes == {0: 0, 1: ErrorCode.REQUEST_TIMED_OUT, 2: 0}
    replica = node.plane.replicas[ROUTES[0].topic_id, 0]
    (only,) = iter_batches(stored(replica))
    assert only.header().producer_id == 1


async def test_deadlines_end_the_wait_for_an_unreachable_node(node, sender):
    now = node.clock.now_ms
    await node.kill()
    await until(lambda: not sender.link._append.stream.is_open)
    sender.send(make_batch(), deadline_ms=now + 100)
    await asyncio.sleep(0.01)
    sender.send(make_batch(), partition=1, deadline_ms=now + 200)
    sender.link.expire(now + 99)
    assert sender.sink.results == []
    sender.link.expire(now + 100)
    assert sender.sink.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}, "never sent"
    await node.start()
    sink = await sender.all()
    assert sink.codes[1] == 0


class Hanging:
    """A node that reads messages and answers none until it is revived."""

    def __init__(self, node):
        self.node, self.append, self.seen = node, node.plane.append, []
        node.plane.append = self

    def __call__(self, groups):
        self.seen += groups

    def revive(self):
        self.node.plane.append = self.append
        self.append(self.seen)


async def test_deadlines_hold_if_the_node_hangs_and_late_answers_are_ignored(node, sender):
    hanging = Hanging(node)
    sender.send(idempotent(0), deadline_ms=100)
    sender.send(make_batch(), partition=1, deadline_ms=200)
    await until(lambda: len(hanging.seen) == 2)
    sender.link.expire(99)
    assert sender.sink.results == []
    sender.link.expire(100)
    assert sender.sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    assert sender.sink.results[0][2].outcome == OUTCOME_UNKNOWN
    sender.link.expire(200)
    assert set(sender.sink.codes) == {0, 1}
    hanging.revive()
    sender.send(idempotent(1))
    sender.send(make_batch(), partition=1)
    sink = await sender.all()
    assert [index for index, _, _ in sink.results] == [0, 1, 2, 3], "nobody hears twice"
    assert (sink.codes[2], sink.codes[3]) == (0, 0)
    assert (sink.offsets[2], sink.offsets[3]) == (1, 1), "behind those that came late"
    await until(lambda: sender.link._append.idle)


async def test_batches_queued_for_a_hanging_node_count_as_unsent(node, sender):
    stream = sender.link._append
    stream._unacknowledged.update(range(-stream._outstanding_max, 0))  # As if in flight.
    stream._hold_or_release()
    sender.send(idempotent(0), deadline_ms=100)
    sender.send(idempotent(1), deadline_ms=FAR_MS)
    sender.send(make_batch(), deadline_ms=FAR_MS)
    await asyncio.sleep(0.02)
    sender.link.expire(100)
    assert sender.sink.codes == dict.fromkeys((0, 1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stream._unacknowledged.clear()
    stream._hold_or_release()
    sink = await sender.all()
    assert (sink.codes[2], sink.offsets[2]) == (0, 0), "the first in the log"


async def test_expired_idempotent_batches_are_sent_again_so_that_sequences_have_no_gap(
    node, sender
):
    lossy = Lossy(node, appends=False)
    sender.send(idempotent(0), deadline_ms=100)
    await until(lambda: lossy.seen)
    sender.link.expire(100)
    await node.kill()
    sender.send(idempotent(1))
    node.plane.append = lossy.inner
    await node.start()
    sink = await sender.all()
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: 0}
    assert sink.offsets[1] == 1


async def test_a_batch_that_cannot_be_encoded_is_answered_and_the_others_go_on(
    node, sender, link_failures
):
    sender.send(make_batch())
    sender.link.append(ROUTES[1], 1, 42, 1, sender.sink, 1, FAR_MS)  # No buffer at all.
    sender.count += 1
    sender.send(make_batch(), partition=0)
    sink = await sender.all()
    assert sink.codes == {0: 0, 1: ErrorCode.UNKNOWN_SERVER_ERROR, 2: 0}
    assert [name for name, _ in link_failures] == ["encode-append"]
    link_failures.clear()
    sender.send(make_batch(), partition=1)
    assert (await sender.all()).codes[3] == 0, "the stream goes on"


async def test_a_sink_that_raises_does_not_end_the_stream(node, sender):
    sender.sink.raises = {0}
    sender.send(make_batch())
    sender.send(make_batch())
    await until(lambda: sender.sink.results and sender.sink.errors)
    assert sender.sink.offsets == {1: 1}


async def test_closing_the_link_answers_all(node, sender):
    Lossy(node, appends=False)
    sender.send(idempotent(0))
    await asyncio.sleep(0.05)
    sender.send(make_batch())
    sender.send(make_batch(), partition=1)
    await sender.link.close()
    unsent = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sender.sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: unsent, 2: unsent}


@pytest.mark.parametrize("answer", [b"\xff\xff\xff", b"\x12\x04\x08\x63\x10\x00"])
async def test_a_malformed_response_breaks_the_stream_and_not_the_link(node, sender, answer):
    stream = sender.link._append.stream
    received, broken = stream._received, []

    def garble(message):
        stream._received = received
        broken.append(message)
        received(answer)

    stream._received = garble
    sender.send(idempotent(0))
    sink = await sender.all()
    assert broken
    assert sink.results == [(0, 0, None)], "sent again on the next stream, found as a duplicate"


def _indexes(groups):
    return [(group.partition, group.indexes) for group in groups]


async def test_sent_and_queued_groups_can_be_recalled(node, sender):
    hanging = Hanging(node)
    stream = sender.link._append
    for n in range(4):
        sender.send(make_batch(), partition=n % 2)
        await asyncio.sleep(0.02)
    everything = [(0, [0]), (1, [1]), (0, [2]), (1, [3])]
    assert _indexes(stream.under_way()) == everything
    assert len(hanging.seen) == 4, "a message is acknowledged by itself"
    stream._unacknowledged.update({-1, -2})
    stream._hold_or_release()
    sender.send(make_batch())
    sender.send(make_batch(), partition=1)
    recalled = sender.link.recall_appends(lambda group: group.partition == 0)
    assert _indexes(recalled) == [(0, [0]), (0, [2]), (0, [4])]
    assert [group.attempted for group in recalled] == [True, True, False]
    assert _indexes(sender.link.appends_under_way()) == [(1, [1]), (1, [3]), (1, [5])]
    sender.link.expire(FAR_MS - 1)
    stream._unacknowledged.clear()
    hanging.revive()
    stream._hold_or_release()
    await until(lambda: stream.idle)
    assert sender.sink.codes == {1: 0, 3: 0, 5: 0}
    assert not any(group.completed for group in recalled), "late results are nobody's"


async def test_recalled_groups_are_not_sent_again_when_the_stream_breaks(node, sender):
    lossy = Lossy(node, appends=False)
    sender.send(idempotent(0))
    sender.send(idempotent(0, producer_id=2), partition=1)
    await until(lambda: len(lossy.seen) == 2)
    (recalled,) = sender.link.recall_appends(lambda group: group.partition == 1)
    await node.kill()
    await until(lambda: not sender.link.takes_appends)
    sender.send(idempotent(1))
    stream = sender.link._append
    await until(lambda: stream._ready)
    assert _indexes(sender.link.recall_appends(lambda group: True)) == [(0, [0]), (0, [2])]
    assert stream.idle
    await node.start()
    await until(lambda: sender.link.takes_appends)
    assert sender.sink.results == []
    assert not recalled.completed


async def test_an_acknowledgement_lets_the_batches_of_its_whole_turn_go():
    channel, work, bugs, sink = FakeChannel(), [], [], Sink()
    made = AppendStream(
        channel, clock=ManualClock(), schedule=work.append, on_bug=bugs.append, outstanding_max=1
    )
    made.stream.start()
    await until(lambda: made.stream.is_open)

    def append(number):
        batch = make_batch()
        made.gatherer.append(ROUTES[0], 1, batch, len(batch), sink, number, FAR_MS)

    def end_turn():
        while work:
            work.pop(0)()

    append(0)
    end_turn()
    append(1)
    end_turn()
    assert len(channel.call.written) == 1, "one is outstanding"
    channel.call.answer(pb.AppendResponse(appended_message_ids=[1]).SerializeToString())
    append(2)
    assert len(channel.call.written) == 1
    end_turn()
    assert len(channel.call.written) == 2
    _, (group,) = decode_request(channel.call.written[1])
    assert len(group.batches) == 2
    made.stream.stop()
    assert bugs == []
