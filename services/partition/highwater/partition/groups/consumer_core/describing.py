"""Consumer groups in ListGroups and ConsumerGroupDescribe.

Kafka: `ConsumerGroup.asDescribedGroup`, `consumerGroupDescribe` of GroupMetadataManager.java.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from highwater.model.ids import InstanceId
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.embedded import PROTOCOL_TYPE
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import ConsumerMember
from highwater.partition.groups.consumer.requests import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.core.values import GroupKey, ListedGroup

GROUP_TYPE: Final = "consumer"
"""The type that ListGroups v5 gives for these groups, spelled as in Kafka."""


def list_groups(
    state: ConsumerState, instance: InstanceId, states: Iterable[str], types: Iterable[str]
) -> Iterator[ListedGroup]:
    """List the instance's groups with one of these states and types; an empty filter means all."""
    wanted = {name.lower() for name in states}
    wanted_types = {name.lower() for name in types}
    if wanted_types and GROUP_TYPE not in wanted_types:
        return
    for key, group in state.groups.items():
        name = group.state.value
        if key.instance == instance and (not wanted or name.lower() in wanted):
            yield ListedGroup(
                group_id=key.group_id,
                protocol_type=PROTOCOL_TYPE,
                state=name,
                group_type=GROUP_TYPE,
            )


def describe(state: ConsumerState, key: GroupKey) -> DescribedConsumerGroup | None:
    """Describe the group with its members; None if there is no such consumer group."""
    group = state.groups.get(key)
    if group is None:
        return None
    return DescribedConsumerGroup(
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=group.preferred_assignor() or next(iter(state.assignors)),
        members=tuple(_member(state, key, group, m) for m in group.members.values()),
    )


def _member(
    state: ConsumerState, key: GroupKey, group: ConsumerGroup, member: ConsumerMember
) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member_id=member.member_id,
        epoch=member.current.epoch,
        metadata=member.metadata,
        assignment=_named(state, key.instance, member.current.assigned),
        target=_named(state, key.instance, group.target(member.member_id)),
    )


def _named(
    state: ConsumerState, instance: InstanceId, assignment: MemberAssignment
) -> tuple[tuple[bytes, str, tuple[int, ...]], ...]:
    """Topics that no longer exist are left out."""
    found = ((state.topics.by_id(instance, topic_id), p) for topic_id, p in assignment.items())
    return tuple((topic.topic_id, topic.name, p) for topic, p in found if topic is not None)
