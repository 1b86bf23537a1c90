"""The checks themselves: each broken rule is noticed."""

import pytest

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.groups.core import invariants
from tests.unit.partition.groups.dialogue import Dialogue, key


def lose_leader(d, group):
    group.leader = None


def lead_from_outside(d, group):
    group.leader = "nobody"


def miscount_votes(d, group):
    group.votes["range"] += 1


def miscount_joins(d, group):
    group.awaiting_join_count = 1


def forget_image(d, group):
    d.shard.durable.images.clear()


def go_back(d, group):
    group.generation = 0


def miscount_offsets(d, group):
    d.shard.durable.offset_counts.add(DEFAULT_INSTANCE, 5)


def miscount_pending_offsets(d, group):
    d.shard.durable.pending.counts.add(DEFAULT_INSTANCE, 1)


def miscount_members(d, group):
    d.shard.member_counts.add(DEFAULT_INSTANCE, 1)


def miscount_metadata(d, group):
    d.shard.metadata_counts.add(DEFAULT_INSTANCE, -1)
    d.shard.metadata_counts.add(InstanceId("other"), 1)


def lose_protocol(d, group):
    group.protocol = None


def lose_static(d, group):
    group.static_members["s"] = "nobody"


def lose_group(d, group):
    del d.shard.groups[key("g")]


@pytest.mark.parametrize(
    "damage",
    [
        lose_leader,
        lead_from_outside,
        miscount_votes,
        miscount_joins,
        forget_image,
        go_back,
        miscount_offsets,
        miscount_pending_offsets,
        miscount_members,
        miscount_metadata,
        lose_protocol,
        lose_static,
        lose_group,
    ],
)
def test_damage_is_noticed(damage):
    d = Dialogue()
    d.stable_pair()
    invariants.check(d.shard)
    damage(d, d.shard.groups[key("g")])
    with pytest.raises(AssertionError):
        invariants.check(d.shard)


def test_rebalance_that_nothing_ends_is_noticed():
    d = Dialogue()
    leader, _ = d.stable_pair()
    d.join(leader)
    group = d.shard.groups[key("g")]
    group.join_timer.deadline_ms = None
    with pytest.raises(AssertionError, match="no deadline"):
        invariants.check(d.shard)
