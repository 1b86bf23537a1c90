"""ListGroups v0-5, DescribeGroups v0-6 and DeleteGroups v0-2, the APIs of admin tools.

Kafka: `listGroups`, `describeGroups`, `deleteGroups` of GroupCoordinatorShard.java.
"""

from collections.abc import Iterable, Iterator

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core import consumer_offsets
from highwater.partition.groups.core.durable import GroupRecord
from highwater.partition.groups.core.offsets import delete_all_offsets
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import EMPTY, STABLE
from highwater.partition.groups.core.values import (
    DescribedGroup,
    DescribedMember,
    GroupKey,
    ListedGroup,
)

GROUP_TYPE = "classic"
"""The type that ListGroups v5 gives for these groups, spelled as in Kafka (KIP-848)."""


def list_groups(
    state: ShardState, instance: InstanceId, states: Iterable[str], types: Iterable[str]
) -> Iterator[ListedGroup]:
    """List the instance's classic groups with one of these states and types; an empty filter means all."""
    wanted = {name.lower() for name in states}
    wanted_types = {name.lower() for name in types}
    if wanted_types and GROUP_TYPE not in wanted_types:
        return
    for group in state.groups.values():
        if group.key.instance != instance:
            continue
        if wanted and group.state.value.lower() not in wanted:
            continue
        yield ListedGroup(
            group_id=group.key.group_id,
            protocol_type=group.protocol_type or "",
            state=group.state.value,
            group_type=GROUP_TYPE,
        )


def describe_group(state: ShardState, key: GroupKey) -> DescribedGroup | None:
    """Describe the group with its members; None when there is no such classic group."""
    group = state.groups.get(key)
    if group is None:
        return None
    stable = group.state is STABLE
    assignment: dict[str, bytes] = {}
    if stable:
        assignment = {m.member_id: m.assignment for m in state.durable.images[key].members}
    return DescribedGroup(
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=(group.protocol or "") if stable else "",
        members=tuple(
            DescribedMember(
                member_id=m.member_id,
                instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                metadata=m.metadata(group.protocol) if stable else b"",
                assignment=assignment.get(m.member_id, b""),
            )
            for m in group.members.values()
        ),
    )


def delete_group(state: ShardState, key: GroupKey, now: Moment) -> ErrorCode:
    """Delete an empty group, of either type, with all its offsets."""
    consumer = state.durable.consumer_groups.get(key)
    if consumer is not None:
        if consumer.members:
            return ErrorCode.NON_EMPTY_GROUP
        delete_all_offsets(state, key)
        consumer_offsets.delete(state, key, consumer)
        return ErrorCode.NONE
    group = state.groups.get(key)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    delete_all_offsets(state, key)
    if key in state.durable.images:
        state.apply(GroupRecord(key, None))
    state.kill(group, now.wall_ms)
    return ErrorCode.NONE
