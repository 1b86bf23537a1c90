"""What must hold after every step of a shard; tests check it."""

from collections import Counter
from collections.abc import Iterable

from highwater.model.ids import InstanceId
from highwater.partition.groups.consumer import invariants as consumer_invariants
from highwater.partition.groups.consumer.sizes import member_memory, regex_memory
from highwater.partition.groups.core.group import ClassicGroup, memory_of
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.shares import SharedCounts
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.key import GroupKey


def check(shard: GroupCoordinatorShard) -> None:
    """Raise AssertionError if an invariant is broken."""
    durable = shard.durable
    assert all(durable.offsets.values()), "a group without offsets has no entry"
    _check_counts(shard)
    for key, group in shard.groups.items():
        assert group.key == key
        _check_members(group)
        _check_state(group)
        image = durable.images.get(key)
        if group.state is STABLE:
            assert image is not None, "the image of a stable group is written"
            assert image.generation == group.generation
            assert {m.member_id for m in image.members} >= set(group.members)
        if image is not None:
            assert image.generation <= group.generation, "a generation went back"
    for key in durable.images:
        assert key in shard.groups, "a written group is in memory"
    for key in (*durable.offsets, *durable.pending.groups()):
        assert key in shard.groups or key in durable.consumer_groups
    slots = Counter((key, slot) for _, key, slot, _ in durable.pending.entries())
    assert {key for key, _ in slots} == set(durable.pending.groups())
    for key, slot in slots:
        assert durable.pending.is_unstable(key, slot)
    assert durable.consumer_groups.keys().isdisjoint(shard.groups), "a group of both types"
    counts = _by_instance((*shard.groups, *durable.consumer_groups))
    assert counts == {instance: shard.count(instance) for instance in counts}
    assert _by_instance(durable.consumer_groups) == dict(durable.consumer_counts.items())
    consumer_invariants.check(durable.consumer_groups)


def _check_counts(shard: GroupCoordinatorShard) -> None:
    """What each instance has is what its groups say, and so is the sum."""
    durable = shard.durable
    members: Counter[InstanceId] = Counter()
    metadata: Counter[InstanceId] = Counter()
    for key, group in shard.groups.items():
        members[key.instance] += len(group.members) + len(group.pending_members)
        for member in group.members.values():
            assert member.metadata_bytes == memory_of(member.protocols.items(), member.instance_id)
            metadata[key.instance] += member.metadata_bytes
    for key, consumer in durable.consumer_groups.items():
        members[key.instance] += len(consumer.members)
        metadata[key.instance] += sum(member_memory(m.metadata) for m in consumer.members.values())
        metadata[key.instance] += sum(regex_memory(r.topics) for r in consumer.regexes.values())
    _check_count(shard.member_counts, members)
    _check_count(shard.metadata_counts, metadata)
    offsets: Counter[InstanceId] = Counter()
    for key, slots in durable.offsets.items():
        offsets[key.instance] += len(slots)
    _check_count(durable.offset_counts, offsets)
    pending = _by_instance(key for _, key, _, _ in durable.pending.entries())
    _check_count(durable.pending.counts, pending)


def _check_count(counts: SharedCounts, expected: Counter[InstanceId]) -> None:
    # Counters are equal when they differ only in zeros; the counts must not have any.
    assert Counter(dict(counts.items())) == expected
    assert all(count for _, count in counts.items())
    assert counts.total == expected.total()


def _by_instance(keys: Iterable[GroupKey]) -> Counter[InstanceId]:
    return Counter(key.instance for key in keys)


def _check_members(group: ClassicGroup) -> None:
    awaiting = [m for m in group.members.values() if m.awaiting_join]
    assert group.awaiting_join_count == len(awaiting)
    assert (group.leader is None) == (not group.members), "a leader without members, or none"
    assert group.leader is None or group.leader in group.members
    statics = {m.instance_id: i for i, m in group.members.items() if m.instance_id is not None}
    assert group.static_members == statics
    assert not set(group.pending_members) & set(group.members)
    votes: dict[str, int] = {}
    for member_id, member in group.members.items():
        assert member.member_id == member_id
        assert member.join_token is None or member.awaiting_join
        assert member.join_token is None or member.sync_token is None
        for name in member.protocols:
            votes[name] = votes.get(name, 0) + 1
    assert group.votes == votes
    if group.members:
        common = [name for name, count in votes.items() if count == len(group.members)]
        assert common, "the members have no common protocol"


def _check_state(group: ClassicGroup) -> None:
    if group.state is EMPTY:
        assert not group.members
    if group.state in (COMPLETING_REBALANCE, STABLE):
        assert group.members
        assert group.protocol is not None
        assert group.awaiting_join_count == 0, "a member waits in JoinGroup"
    if group.state is not COMPLETING_REBALANCE:
        assert all(m.sync_token is None for m in group.members.values())
    if group.state is PREPARING_REBALANCE:
        assert group.join_timer.deadline_ms is not None, "a rebalance has no deadline"
    if group.state is COMPLETING_REBALANCE:
        assert group.sync_timer.deadline_ms is not None, "waiting for SyncGroup has no deadline"
