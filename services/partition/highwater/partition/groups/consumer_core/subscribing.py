"""Members that join or change what they read, in either protocol."""

from dataclasses import replace

from highwater.model.authorization import TopicView
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import CurrentRecord, MemberRecord, TargetRecord
from highwater.partition.groups.consumer.group import NO_EPOCH, ConsumerGroup
from highwater.partition.groups.consumer.member import (
    JOIN_EPOCH,
    ConsumerMember,
    MemberMetadata,
)
from highwater.partition.groups.consumer_core import (
    fencing,
    refresh,
)
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.core.values import GroupKey


def replace_static(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    old: ConsumerMember,
    member_id: str,
) -> ConsumerMember:
    """Give a static member's place, with all that it holds, to its next incarnation.

    Kafka: `replaceMember`. The new one may have the same member id.
    """
    target = group.target(old.member_id)
    fencing.remove(state, key, old.member_id)
    current = replace(old.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    state.apply(MemberRecord(key, member_id, old.metadata))
    state.apply(TargetRecord(key, member_id, target))
    state.apply(CurrentRecord(key, member_id, current))
    return group.members[member_id]


def update(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    before: ConsumerMember,
    metadata: MemberMetadata,
    now: Moment,
    *,
    view: TopicView | None = None,
) -> bool:
    """Write what has changed, with a new epoch if the target assignment has to follow.

    A regular expression that is new to the group, or to this coordinator, is looked up first
    (`refresh`), with the member's `view` of topics; the epoch grows when that is done. Returns whether the member's subscription has changed.
    """
    old = before.metadata
    if metadata != old or before.member_id not in group.members:
        state.apply(MemberRecord(key, before.member_id, metadata))
    if (metadata.classic is None) is not (old.classic is None):
        state.timers.forget(key, before.member_id)  # The other protocol has other deadlines.
    names_changed = metadata.topic_names != old.topic_names
    regex_changed = metadata.topic_regex != old.topic_regex
    if regex_changed:
        fencing.forget_regexes(state, key, group)
    is_resolved = not metadata.topic_regex or metadata.topic_regex in group.regexes
    if group.epoch == NO_EPOCH or names_changed or (regex_changed and is_resolved):
        state.bump_epoch(key, group)
    regex = metadata.topic_regex
    asks = bool(regex) and state.askers.note(key, group, regex, before.member_id, view)
    if asks or not is_resolved:
        refresh.look_up(state, key, now)
    return names_changed or regex_changed
