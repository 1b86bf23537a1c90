"""Making a classic group of a consumer group whose members all speak the classic protocol.

Kafka: `validateOnlineDowngradeWithFencedMembers`, `convertToClassicGroup` of
GroupMetadataManager.java, `ClassicGroup.fromConsumerGroup`.
"""

from collections.abc import Collection
from typing import Final

from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import tombstones_of
from highwater.partition.groups.consumer.embedded import (
    PROTOCOL_TYPE,
    read_subscription,
    write_assignment,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ClassicMember, ConsumerMember
from highwater.partition.groups.consumer.sizes import text_size
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.core import rebalance, restoring
from highwater.partition.groups.core.durable import GroupRecord, MemberImage
from highwater.partition.groups.core.values import GroupKey

_MEMBER_OVERHEAD_BYTES: Final = 512
"""Lengths, timeouts and the client of one member in the record; a little more for long names."""
_LARGEST_VERSION: Final = 3
"""Of ConsumerProtocolAssignment."""


def may_follow(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    leaving: Collection[str],
    *,
    joining: ClassicMember | None = None,
) -> bool:
    """Whether the group becomes a classic one when these members are gone.

    `joining` takes the place of one of them. A group whose classic record would not fit into a batch
    stays as it is.
    """
    config = state.config
    if not config.migration_policy.downgrades:
        return False
    gone = [group.members[member_id] for member_id in leaving]
    count = len(group.members) - len(gone) + (joining is not None)
    others = len(group.members) - group.classic_count
    if others > sum(member.metadata.classic is None for member in gone):
        return False
    if not 0 < count <= config.group_size_max:
        return False
    staying = (m.metadata.classic for m in group.members.values() if m.member_id not in leaving)
    classic = [one for one in staying if one is not None]
    if joining is not None:
        classic.append(joining)
    size = sum(map(_subscription_size, classic))
    for member_id, target in group.targets.items():
        instance = key.instance
        size += _MEMBER_OVERHEAD_BYTES + text_size(member_id)
        size += len(write_assignment(target, state.topics, instance, _LARGEST_VERSION))
    return size <= config.list_bytes_max


def _subscription_size(classic: ClassicMember) -> int:
    return max(len(metadata) for _, metadata in classic.protocols)


def to_classic(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    *,
    leaving: Collection[str] = (),
    rebalances: bool = True,
    now: Moment,
) -> None:
    """Delete the consumer group's records and write the classic group, after `may_follow`.

    It is stable in a generation that is the group's epoch, with the target assignment; then its
    members are asked to join again, unless nothing has changed for them.
    """
    shard = state.shard
    group = group.copy()  # The original is emptied.
    members = list(group.members.values())
    for member in members:
        state.timers.forget(key, member.member_id)
    for record in tombstones_of(key, group):
        state.apply(record)
    assignments = {}
    classic = rebalance.create_group(shard, key, now.wall_ms)
    classic.generation = group.epoch
    for member in members:
        if member.member_id in leaving:
            continue
        assert member.metadata.classic is not None
        protocols = member.metadata.classic.protocols
        stored = _image(member, member.metadata.classic.session_timeout_ms)
        restoring.restore_member(shard, classic, stored, PROTOCOL_TYPE, protocols, now)
        version = read_subscription(protocols[0][1]).version
        assignments[member.member_id] = write_assignment(
            group.target(member.member_id), state.topics, key.instance, version
        )
    classic.protocol = classic.select_protocol()
    restoring.make_stable(classic, now.wall_ms)
    shard.apply(GroupRecord(key, classic.image(assignments, now.wall_ms)))
    if rebalances:
        rebalance.prepare_rebalance(shard, classic, now)


def _image(member: ConsumerMember, session_timeout_ms: int) -> MemberImage:
    metadata = member.metadata
    return MemberImage(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=b"",
        assignment=b"",
    )
