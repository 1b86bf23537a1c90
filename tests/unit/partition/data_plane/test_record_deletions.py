"""DeleteRecords at leaders: what is refused, and what is waited for."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.replica_events import IneligibleChanged
from highwater.partition.data_plane.record_deletions import RecordDeletions
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says, lead

OTHER = 2


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def filled(node, count=5, **config):
    replica = node.add(**config)
    for _ in range(count):
        node.append(make_batch())
    return replica


def alone_no_more(replica):
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, OTHER), isr=(1, OTHER))


async def delete(node, offset, *, partition=0, timeout_ms=0):
    (result,) = (
        await RecordDeletions(node.plane).delete(
            pb.DeleteRecordsRequest(
                timeout_ms=timeout_ms,
                partitions=[
                    pb.DeleteRecordsPartition(topic_id=TOPIC, partition=partition, offset=offset)
                ],
            )
        )
    ).results
    return result.error_code, result.low_watermark


async def test_the_log_begins_later_and_never_goes_back(node):
    replica = filled(node)
    assert await delete(node, 3) == (0, 3)
    assert (replica.log.log_start_offset, replica.core.log_start_offset) == (3, 3)
    assert await delete(node, 1) == (0, 3), "nothing to delete"
    assert node.fetch(ask(2)).codes == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert await delete(node, -1) == (0, 5)
    assert replica.log.log_end_offset == 5
    assert node.append(make_batch()).offsets == {0: 5}


@pytest.mark.parametrize("offset", [6, -2, 2**62])
async def test_offsets_that_are_not_committed_are_refused(node, offset):
    replica = filled(node)
    assert await delete(node, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert replica.log.log_start_offset == 0


async def test_compacted_topics_are_refused_unless_they_delete_too(node):
    filled(node, compact=True, delete_policy=False)
    assert await delete(node, 1) == (ErrorCode.POLICY_VIOLATION, -1)
    both = node.add(1, compact=True)
    assert await delete(node, 0, partition=1) == (0, 0)
    assert both.log.log_start_offset == 0


async def test_who_does_not_lead(node):
    assert await delete(node, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    follow(node.add(), OTHER, EPOCH + 1)
    assert await delete(node, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_whole_segments_go(node):
    replica = filled(node, 1)
    replica.log.roll()
    node.append(make_batch())
    assert await delete(node, 1) == (0, 1)
    assert [segment.base_offset for segment in replica.log.extent.all] == [1]


async def followed(node):
    """A leader with a follower that has everything, and a deletion that waits for it."""
    replica = filled(node)
    alone_no_more(replica)
    follower_fetched(replica, OTHER, 5)
    waiting = asyncio.create_task(delete(node, 4, timeout_ms=60_000))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert replica.log.log_start_offset == 4, "the leader does not wait"
    return replica, waiting


async def test_it_waits_for_followers(node):
    replica, waiting = await followed(node)
    replica.follower_keeps(replica.core.followers[OTHER], 3)
    await asyncio.sleep(0)
    assert not waiting.done()
    replica.follower_keeps(replica.core.followers[OTHER], 4)
    assert await waiting == (0, 4)
    assert replica.listeners == ()


async def test_a_partition_that_a_request_names_often_is_waited_for_once(node):
    replica = filled(node)
    alone_no_more(replica)
    offsets = [2, 4, 3]
    request = pb.DeleteRecordsRequest(
        timeout_ms=10_000,
        partitions=[pb.DeleteRecordsPartition(topic_id=TOPIC, offset=one) for one in offsets],
    )
    waiting = asyncio.create_task(RecordDeletions(node.plane).delete(request))
    await asyncio.sleep(0)
    assert len(replica.listeners) == 1
    replica.follower_keeps(replica.core.followers[OTHER], 3)
    await asyncio.sleep(0)
    assert not waiting.done(), "the largest offset counts"
    replica.follower_keeps(replica.core.followers[OTHER], 4)
    answered = (await waiting).results
    assert [(one.error_code, one.low_watermark) for one in answered] == [(0, 4)] * 3
    assert replica.listeners == ()


async def test_it_does_not_wait_for_nodes_that_are_down(node):
    replica, waiting = await followed(node)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, OTHER), isr=(1,))
    await asyncio.sleep(0)
    assert not waiting.done(), "it lives"
    replica.handle(IneligibleChanged(nodes=frozenset({OTHER})))
    assert await waiting == (0, 4)


async def test_a_leader_that_is_deposed_answers(node):
    replica, waiting = await followed(node)
    image_says(replica, leader=OTHER, epoch=EPOCH + 1, replicas=(1, OTHER))
    assert await waiting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert replica.listeners == ()


async def test_a_leader_whose_log_fails_answers(node):
    replica = filled(node)
    alone_no_more(replica)
    waiting = asyncio.create_task(delete(node, 4, timeout_ms=60_000))
    await asyncio.sleep(0)
    replica.fail()
    code, _ = await waiting
    assert code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_the_same_leader_in_a_new_epoch_goes_on_waiting(node):
    replica, waiting = await followed(node)
    image_says(replica, leader=1, epoch=EPOCH + 1, replicas=(1, OTHER))
    await asyncio.sleep(0)
    assert not waiting.done()
    lead(replica, EPOCH + 2)
    assert await waiting == (0, 4)


async def test_time_runs_out(node):
    replica = filled(node)
    alone_no_more(replica)
    follower_fetched(replica, OTHER, 5)
    replica.follower_keeps(replica.core.followers[OTHER], 1)
    assert await delete(node, 4, timeout_ms=1) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    assert replica.listeners == ()
    assert replica.log.log_start_offset == 4
