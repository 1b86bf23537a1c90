"""ConsumerGroupHeartbeat v0-1: members join, report, get their assignments, and leave.

One heartbeat does up to four steps, each with its records: the member is added or changed; the
group's epoch grows if what its members read has changed; the target assignment is made for that
epoch, or begun if it takes long; the member takes a step towards the one that there is.

Kafka: `consumerGroupHeartbeat` of GroupMetadataManager.java. Deviation: the group's epoch also
grows as soon as a subscribed topic changes, not only with the next heartbeat (`refresh`).
"""

from dataclasses import replace
from typing import TypeVar

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignment import contains
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberMetadata,
    MemberState,
)
from highwater.partition.groups.consumer.requests import HeartbeatRequest, HeartbeatResponse
from highwater.partition.groups.consumer_core import (
    assigning,
    fencing,
    subscribing,
    targets,
    upgrade,
)
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.consumer_core.validation import check_request

_V = TypeVar("_V")


def heartbeat(state: ConsumerState, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
    """Handle one heartbeat. Raises Refusal; then nothing has changed, unless `assign` raises it."""
    check_request(state, request)
    key = request.key
    if request.epoch < JOIN_EPOCH:
        return _leave(state, request, now)
    if not request.member_id:
        request = replace(request, member_id=state.shard.new_id())
    if request.epoch == JOIN_EPOCH:
        group, before = _join(state, request, now)
    else:
        group = upgrade.known_group(state, key)
        before = _reporting_member(group, request)
    metadata = _metadata(request, before.metadata)
    changed = subscribing.update(state, key, group, before, metadata, now, view=request.view)
    targets.assign(state, key, group, now)
    assigning.reconcile(
        state,
        key,
        group,
        group.members[request.member_id],
        owned=request.owned,
        subscription_changed=changed,
        now=now,
    )
    member = group.members[request.member_id]
    fencing.restart_session(state, key, member, now)
    tells = (
        request.is_full
        or request.epoch == JOIN_EPOCH
        or member.current.assigned != before.current.assigned
    )
    return HeartbeatResponse(
        member_id=member.member_id,
        epoch=member.current.epoch,
        interval_ms=state.config_of(key).heartbeat_interval_ms,
        assignment=member.current.assigned if tells else None,
    )


def _leave(state: ConsumerState, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
    fencing.leave(
        state,
        request.key,
        upgrade.known_group(state, request.key),
        member_id=request.member_id,
        instance_id=request.instance_id,
        epoch=request.epoch,
        now=now,
    )
    return HeartbeatResponse(member_id=request.member_id, epoch=request.epoch)


def _reporting_member(group: ConsumerGroup, request: HeartbeatRequest) -> ConsumerMember:
    """The member that sends a heartbeat between joining and leaving; raises Refusal."""
    if request.instance_id is None:
        member = fencing.known_member(group, request.key, request.member_id)
    else:
        member = fencing.known_static_member(group, request.member_id, request.instance_id)
    current = member.current
    # The member may come with its previous epoch if the answer with the next one was lost. Then it
    # cannot have more than it was given.
    lost = (
        request.epoch == current.previous_epoch
        and request.owned is not None
        and contains(current.assigned, request.owned)
    )
    if request.epoch > current.epoch or (request.epoch < current.epoch and not lost):
        size = "greater" if request.epoch > current.epoch else "smaller"
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {size} member epoch ({request.epoch}) than the one "
            f"known by the group coordinator ({current.epoch}). The member must abandon all its "
            f"partitions and rejoin.",
        )
    if current.state is MemberState.UNKNOWN and (request.owned is None or request.owned):
        raise Refusal(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return member


def _join(
    state: ConsumerState, request: HeartbeatRequest, now: Moment
) -> tuple[ConsumerGroup, ConsumerMember]:
    """The group, made or converted if need be, and the member as it was before this request."""
    key, instance_id = request.key, request.instance_id
    upgrade.check_room(state, request)
    existing = state.groups.get(key)
    if existing is not None:
        _check_released(existing.static_member(instance_id), request)
    group = upgrade.group_to_join(state, key, now)
    static = group.static_member(instance_id)
    if static is not None and not _is_back(static, request):
        return group, subscribing.replace_static(state, key, group, static, request.member_id)
    member = group.members.get(request.member_id)
    return group, member or ConsumerMember(member_id=request.member_id)


def _is_back(member: ConsumerMember, request: HeartbeatRequest) -> bool:
    """True for a static member that joins once more, as it has not heard the answer to its first try.

    It goes on with what it has then, as a dynamic member does.
    """
    return (
        member.member_id == request.member_id
        and member.metadata.classic is None
        and member.current.epoch != STATIC_LEAVE_EPOCH
    )


def _check_released(member: ConsumerMember | None, request: HeartbeatRequest) -> None:
    """A static member of the new protocol is replaced only after it has left for a while."""
    if member is None or member.metadata.classic is not None or _is_back(member, request):
        return
    if member.current.epoch != STATIC_LEAVE_EPOCH:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot "
            f"join the group because the instance id is owned by {member.member_id} member.",
        )


def _metadata(request: HeartbeatRequest, old: MemberMetadata) -> MemberMetadata:
    """What the member wants now; None in the request leaves a field as it was."""
    return MemberMetadata(
        instance_id=_given(request.instance_id, old.instance_id),
        rack_id=_given(request.rack_id, old.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=_given(request.topic_names, old.topic_names),
        topic_regex=_given(request.topic_regex, old.topic_regex),
        rebalance_timeout_ms=_given(request.rebalance_timeout_ms, old.rebalance_timeout_ms),
        assignor=_given(request.assignor, old.assignor),
    )


def _given(asked: _V | None, present: _V) -> _V:
    return present if asked is None else asked
