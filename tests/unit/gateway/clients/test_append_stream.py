"""Appends over a real stream: order, results, and what becomes of them when the node dies."""

import asyncio

import pytest

from highwater.hop.append import OUTCOME_UNKNOWN
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from tests.support.log_batches import ManualClock, make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.hop.sinks import Sink, route
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
    """The node's data plane: appends, and then the results are lost, for a while."""

    def __init__(self, node, *, appends):
        self.inner = node.plane.append
        self.appends = appends
        self.seen = []
        node.plane.append = self

    def __call__(self, groups):
        groups = list(groups)
        self.seen += groups
        if self.appends:
            for group in groups:
                group.on_complete = lambda *_: None
            self.inner(groups)


@pytest.mark.parametrize("appended", [True, False])
async def test_when_the_node_dies_idempotent_batches_are_sent_again_in_order(
    node, sender, appended
):
    lossy = Lossy(node, appends=appended)
    for n in range(5):  # As many as a client has in flight and a log remembers.
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


async def test_when_the_node_dies_others_are_unknown_and_never_sent_ones_wait(node, sender):
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


async def test_a_mixed_group_is_not_sent_again(node, sender):
    lossy = Lossy(node, appends=False)
    sender.send(idempotent(0))
    sender.send(make_batch())
    sender.send(idempotent(0, producer_id=2), partition=1)
    await until(lambda: lossy.seen)
    await node.kill()
    node.plane.append = lossy.inner
    await node.start()
    sink = await sender.all()
    unknown = ErrorCode.REQUEST_TIMED_OUT
    assert sink.codes == {0: unknown, 1: unknown, 2: 0}


async def test_deadlines_end_the_wait_for_a_node_that_is_away(node, sender):
    now = node.clock.now_ms
    await node.kill()
    await until(lambda: not sender.link._append.stream.is_open)
    sender.send(make_batch(), deadline_ms=now + 100)
    await asyncio.sleep(0.01)
    sender.send(make_batch(), partition=1, deadline_ms=now + 200)
    sender.link.expire(now + 99)
    assert sender.sink.results == []
    sender.link.expire(now + 100)
    assert sender.sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    await node.start()
    sink = await sender.all()
    assert sink.codes[1] == 0


async def test_expiry_leaves_an_open_stream_alone(node, sender):
    Lossy(node, appends=False)
    sender.send(make_batch(), deadline_ms=1)
    await asyncio.sleep(0.05)
    sender.link.expire(1 << 60)
    assert sender.sink.results == []


async def test_closing_the_link_answers_all(node, sender):
    Lossy(node, appends=False)
    sender.send(idempotent(0))
    await asyncio.sleep(0.05)
    sender.send(make_batch())
    sender.send(make_batch(), partition=1)
    await sender.link.close()
    assert sender.sink.codes == dict.fromkeys(range(3), ErrorCode.REQUEST_TIMED_OUT)


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
