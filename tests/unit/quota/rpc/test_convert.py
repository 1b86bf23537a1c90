import pytest

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.model.errors import InvalidRequestError
from highwater.quota.core.allocation import Allocation, NodeAllocations, Share
from highwater.quota.core.usage import InstanceUsage
from highwater.quota.rpc.convert import TICK_MS_MAX, allocations_to_pb, usage_from_pb


def test_usage():
    message = pb.UsageReport(
        node_id=3,
        node_epoch=9,
        tick_ms=1000,
        instances=[
            pb.InstanceUsage(
                instance="i",
                produced_bytes=1,
                consumed_bytes=2,
                held_produce_bytes=3,
                held_consume_bytes=4,
                leader_partitions=5,
                stored_bytes=6,
                produce_bytes_per_second=0,
                storage_exhausted=True,
            )
        ],
        applied_generation=8,
    )
    usage = usage_from_pb(message)
    assert (usage.node_id, usage.node_epoch, usage.tick_ms) == (3, 9, 1000)
    assert usage.instances == {
        "i": InstanceUsage(
            produced=1,
            consumed=2,
            held_produce=3,
            held_consume=4,
            leader_partitions=5,
            stored=6,
            produce_rate=0,
            consume_rate=None,
            storage_exhausted=True,
        )
    }
    assert usage.applied_generation == 8


@pytest.mark.parametrize(
    "message",
    [
        pb.UsageReport(tick_ms=0),
        pb.UsageReport(tick_ms=TICK_MS_MAX + 1),
        pb.UsageReport(tick_ms=1, instances=[pb.InstanceUsage(instance="i", stored_bytes=-1)]),
    ],
)
def test_impossible_reports_are_refused(message):
    with pytest.raises(InvalidRequestError):
        usage_from_pb(message)


def test_allocations():
    message = allocations_to_pb(
        NodeAllocations(
            generation=7,
            expires_in_ms=3000,
            allocations=(
                Allocation(
                    instance="i",
                    produce=Share(rate=10, floor=5),
                    consume=None,
                    storage_exhausted=True,
                    storage_limit=90,
                ),
            ),
        )
    )
    assert message == pb.Allocations(
        generation=7,
        expires_in_ms=3000,
        allocations=[
            pb.Allocation(
                instance="i",
                produce_bytes_per_second=10,
                floor_produce_bytes_per_second=5,
                consume_bytes_per_second=-1,
                floor_consume_bytes_per_second=-1,
                storage_exhausted=True,
                storage_limit_bytes=90,
            )
        ],
    )
    assert not message.allocations[0].HasField("storage_left_bytes")
