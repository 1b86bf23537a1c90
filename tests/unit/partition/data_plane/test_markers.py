"""WriteTxnMarkers at a node: one answer for each partition, when it is committed."""

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.markers import Markers
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says
from tests.unit.partition.data_plane.transactions import Producer

OTHER = 2


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def marker(*partitions, epoch=-1, **fields):
    return pb.TxnMarker(
        **{"producer_id": 7, "producer_epoch": 0, "committed": True, **fields},
        partitions=[
            pb.TxnMarkerPartition(topic_id=TOPIC, partition=number, leader_epoch=epoch)
            for number in partitions
        ],
    )


async def write(node, *markers, timeout_s=0.0):
    request = pb.WriteTxnMarkersRequest(markers=markers)
    return list((await Markers(node.plane).write(request, timeout_s)).error_codes)


async def test_answers_are_in_the_order_of_the_request(node):
    ended, followed = node.add(0), node.add(1)
    follow(followed, OTHER, EPOCH + 1)
    Producer(node).write()
    codes = await write(
        node,
        marker(2, 1, 0, producer_epoch=1, transaction_version=2),
        marker(0, producer_epoch=0),
    )
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        0,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ]
    assert ended.transactions.open == {}
    assert ended.log.log_end_offset == 2


async def test_a_sender_that_knows_of_a_later_leader(node):
    node.add()
    later = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await write(node, marker(0, epoch=EPOCH + 1)) == [later]
    assert await write(node, marker(0, epoch=EPOCH - 1)) == [0]
    assert await write(node) == []


async def test_the_time_of_the_request(node):
    replica = node.add()
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, OTHER), isr=(1, OTHER))
    assert await write(node, marker(0)) == [ErrorCode.REQUEST_TIMED_OUT]
    follower_fetched(replica, OTHER, 1)
    assert replica.log.log_end_offset == 1, "it was written all the same"


async def test_topics_of_coordinators_have_targets_of_their_own(node):
    class Target:
        def write_markers(self, partition, leader_epoch, markers):
            [(marker, done)] = markers
            self.got = partition, leader_epoch, marker.coordinator_epoch
            done(ErrorCode.NOT_COORDINATOR)

    replica = node.add()
    target = node.plane.marker_targets[TOPIC] = Target()
    assert await write(node, marker(0, coordinator_epoch=5)) == [ErrorCode.NOT_COORDINATOR]
    assert target.got == (0, EPOCH, 5)
    assert replica.log.log_end_offset == 0


async def test_a_bug_ends_one_partition(node, monkeypatch):
    replica = node.add()
    monkeypatch.setattr(type(replica.log.producers.states), "check_marker", None)
    assert await write(node, marker(0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(node.bugs) == 1
    assert replica.failed


async def test_a_replica_that_goes_meanwhile(node):
    node.add()
    producer = Producer(node)
    node.plane.replicas.clear()
    assert producer.end(commit=True) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("epoch", [1 << 15, -(1 << 15) - 1, (1 << 31) - 1])
async def test_an_epoch_that_fits_into_no_batch_costs_no_replica(node, epoch):
    replica = node.add()
    with pytest.raises(RpcError) as refused:
        await write(node, marker(0), marker(0, producer_epoch=epoch))
    assert refused.value.code is StatusCode.INVALID_ARGUMENT
    assert node.bugs == []
    assert not replica.failed
    assert replica.log.log_end_offset == 0, "nothing of the request was done"
    assert await write(node, marker(0)) == [0]
