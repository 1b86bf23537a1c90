"""The end of a stream. If a node stops in order, batches that it read are answered, and the rest is
sent again. If a stream breaks, sent batches are in doubt until they are in a log.
"""

import asyncio

import pytest

from highwater.gateway.clients.append_stream import goes_again
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import OUTCOME_UNKNOWN, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.clients.test_append_stream import (
    FAR_MS,
    ROUTES,
    Lossy,
    Sender,
    idempotent,
)
from tests.unit.hop.sinks import Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says, lead

OTHER = 2


async def opened(link):
    await until(lambda: link._append.stream.is_open)
    return Sender(link)


async def test_a_restarting_node_loses_and_repeats_nothing(node, link):
    sender = await opened(link)

    async def send():
        for n in range(300):
            sender.send(make_batch(value=b"%d" % n))  # Not idempotent: a repeat would be seen.
            await asyncio.sleep(0.001)

    sending = asyncio.create_task(send())
    await until(lambda: len(sender.sink.results) > 50)
    assert await node.stop()
    await asyncio.sleep(0.05)
    await node.start()
    await sending
    sink = await sender.all()
    assert set(sink.codes.values()) == {0}
    assert [sink.offsets[n] for n in range(300)] == list(range(300))
    assert len(list(iter_batches(stored(node.plane.replicas[ROUTES[0].topic_id, 0])))) == 300


async def test_messages_larger_than_a_streams_window(node, link):
    sender = await opened(link)
    for n in range(40):
        sender.send(make_batch(value=bytes(400_000)), partition=n % 2)
    await until(lambda: sender.sink.results)
    assert await node.stop(5)
    await node.start()
    sink = await sender.all()
    assert set(sink.codes.values()) == {0}
    for partition in (0, 1):
        assert [sink.offsets[n] for n in range(partition, 40, 2)] == list(range(20))


async def test_unread_batches_are_sent_again_and_read_ones_are_in_doubt(node, link):
    replica = node.add(2, lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, OTHER))
    sender = await opened(link)
    sender.send(make_batch(), partition=2, acks=-1)
    await until(lambda: replica.log.log_end_offset == 1)
    sender.send(make_batch(), deadline_ms=FAR_MS)
    stopping = asyncio.create_task(node.stop(0.2))  # It waits for a commit that does not come.
    await asyncio.sleep(0.05)
    assert [group.attempted for group in link._append.under_way()] == [True, True]
    assert await stopping
    await until(lambda: sender.sink.results)
    failure = sender.sink.results[0][2]
    assert (failure.error_code, failure.outcome) == (ErrorCode.REQUEST_TIMED_OUT, OUTCOME_UNKNOWN)
    assert [group.attempted for group in link._append.under_way()] == [False], "nobody has it"
    await node.start()
    sink = await sender.all()
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: 0}
    assert sink.offsets[1] == 0


async def test_batches_expired_before_the_node_stopped_are_not_sent_again(node, link):
    replica = node.add(2, lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, OTHER))
    sender = await opened(link)
    sender.send(make_batch(), partition=2, acks=-1)
    await until(lambda: replica.log.log_end_offset == 1)
    sender.send(make_batch(), deadline_ms=100)
    stopping = asyncio.create_task(node.stop(0.2))
    await asyncio.sleep(0.05)
    assert [group.attempted for group in link._append.under_way()] == [True, True]
    link.expire(100)
    assert sender.sink.codes == {1: ErrorCode.REQUEST_TIMED_OUT}
    assert await stopping
    await node.start()
    sender.send(make_batch())
    sink = await sender.all()
    assert sink.offsets[2] == 0


class Produce:
    """A gateway's link and held batches, without a new image and without retries."""

    def __init__(self, node, open_link):
        topic = topic_state("a", [(NODE,)] * 3)
        self.replica = node.add(2, topic_id=topic.topic_id, lead=False)
        lead(self.replica, topic.partitions[2].leader_epoch)
        self.held = HeldProduce(
            1 << 20,
            route_of=self.route_by_id,
            is_lost=lambda _: False,
            call_later=lambda *_: None,
        )
        self.link = open_link(append_owner=self.held)
        self.routing = RoutingTable(lambda _: self.link, self.held)
        self.routing.apply(image_of(topics=[topic]))
        self.sink = Sink()
        self.count = 0

    def route_by_id(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    def send(self):
        route = self.routing.topic(DEFAULT_INSTANCE, "a").partitions[2]
        batch = idempotent(self.count)
        route.target.append(route, -1, batch, len(batch), self.sink, self.count, FAR_MS)
        self.count += 1


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        # A new process that does not know yet that it leads.
        (Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER), ErrorCode.REQUEST_TIMED_OUT),
        (Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=9), ErrorCode.REQUEST_TIMED_OUT),
        (
            Failure(ErrorCode.NOT_ENOUGH_REPLICAS),
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ),
    ],
)
async def test_a_refusal_after_a_broken_stream_leaves_batches_in_doubt(
    node, open_link, refusal, told
):
    produce = Produce(node, open_link)
    await until(lambda: produce.link.takes_appends)
    produce.send()
    await until(lambda: produce.sink.codes == {0: 0})
    lossy = Lossy(node, appends=True)
    for count in (1, 2):  # Each in its own message.
        produce.send()
        await until(lambda count=count: len(lossy.seen) == count)
    assert produce.replica.log.log_end_offset == 3, "all are in the log"
    await node.kill()
    refused = []

    def refuse(groups):
        for group in groups:
            refused.append(group)
            group.fail(refusal)

    node.plane.append = refuse
    await node.start()
    await until(lambda: len(refused) == 2 and produce.link._append.idle)
    produce.held.expire(FAR_MS)
    assert produce.sink.codes == {0: 0, 1: told, 2: told}
    assert [f.outcome for _, _, f in produce.sink.results[1:]] == [OUTCOME_UNKNOWN] * 2


def test_only_batches_that_a_node_may_have_read_are_in_doubt():
    read, unread = group_of(idempotent(0)), group_of(idempotent(0))
    assert goes_again(read, "broken", unread=False)
    assert goes_again(unread, "stopped", unread=True)
    assert (read.doubtful, unread.doubtful) == (True, False)
