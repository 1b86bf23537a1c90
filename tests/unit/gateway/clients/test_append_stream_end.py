"""A node that stops in order: what it read is answered, and the rest is sent again as it is."""

import asyncio

from highwater.hop.append import OUTCOME_UNKNOWN
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.clients.test_append_stream import FAR_MS, ROUTES, Sender
from tests.unit.partition.data_plane.node import EPOCH, stored
from tests.unit.partition.data_plane.roles import NODE, image_says

OTHER = 2


async def opened(link):
    await until(lambda: link._append.stream.is_open)
    return Sender(link)


async def test_while_a_node_stops_and_comes_back_nothing_is_lost_or_doubled(node, link):
    sender = await opened(link)

    async def send():
        for n in range(300):
            sender.send(make_batch(value=b"%d" % n))  # Of nobody who could tell duplicates.
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


async def test_messages_that_are_larger_than_the_window_of_a_stream(node, link):
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


async def test_what_was_not_read_is_sent_again_and_what_was_read_is_in_doubt(node, link):
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


async def test_what_expired_before_the_node_ended_is_not_sent_again(node, link):
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
