"""Which follower a consumer is sent to (KIP-392)."""

import pytest

from highwater.model.ids import NO_NODE
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.preferred_replica import preferred_replica
from highwater.partition.core.replica import Replica
from highwater.partition.core.replica_events import PartitionChanged

ISR = (1, 2, 3)


def leader(*, isr=ISR):
    """Node 1 leads, with offsets 0 to 9; followers have fetched nothing."""
    made = Replica(
        node=1,
        node_epoch=1,
        lag_ms_max=1000,
        epochs=LeaderEpochCache(),
        log_start_offset=0,
        log_end_offset=10,
        high_watermark=0,
    )
    made.handle(
        PartitionChanged(
            now_ms=0,
            leader=1,
            leader_epoch=4,
            partition_epoch=1,
            replicas=(1, 2, 3),
            isr=isr,
            min_isr=1,
        )
    )
    return made


def fetched(replica, node, offset, *, log_start=0, now_ms=0):
    assert replica.refuse_follower(node, 1, 4) == 0
    follower = replica.followers[node]
    follower.keeps(log_start)
    replica.follower_fetched(follower, offset, now_ms)


@pytest.mark.parametrize(
    ("near", "offset", "expected"),
    [
        ((2,), 8, 2),
        ((2,), 9, NO_NODE),
        ((2, 3), 9, 3),
        ((1, 2, 3), 5, NO_NODE),
        ((4,), 5, NO_NODE),
        ((3,), 2, NO_NODE),
    ],
    ids=["has it", "not yet", "the other has it", "the leader is near", "elsewhere", "no more"],
)
def test_a_follower_near_to_the_client_that_has_the_offset(near, offset, expected):
    replica = leader()
    fetched(replica, 2, 8)
    fetched(replica, 3, 10, log_start=3)
    assert preferred_replica(replica, near, offset) == expected


def test_the_furthest_one():
    replica = leader()
    fetched(replica, 2, 8)
    fetched(replica, 3, 7)
    assert preferred_replica(replica, (2, 3), 5) == 2
    fetched(replica, 3, 8)
    assert preferred_replica(replica, (2, 3), 5) == 2, "both have as much"
    fetched(replica, 3, 10, now_ms=7)
    assert preferred_replica(replica, (2, 3), 5) == 3


def test_only_replicas_in_sync():
    replica = leader(isr=(1, 3))
    for node in (2, 3):
        fetched(replica, node, 10)
    assert preferred_replica(replica, (2,), 5) == NO_NODE
    assert preferred_replica(replica, (2, 3), 5) == 3


def test_nobody_of_whose_log_nothing_is_known():
    replica = leader()
    assert preferred_replica(replica, (2, 3), 0) == NO_NODE
    fetched(replica, 2, 8, log_start=-1)
    assert preferred_replica(replica, (2,), 0) == NO_NODE
