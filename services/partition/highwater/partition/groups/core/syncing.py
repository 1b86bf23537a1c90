"""SyncGroup v0-5.

* v3: the instance id is checked (KIP-345).
* v5: protocol type and name are checked and returned (KIP-559).

The leader's call completes the generation; other members' calls wait. Kafka: `classicGroupSync`.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core import rebalance
from highwater.partition.groups.core.durable import image_size
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE
from highwater.partition.groups.core.values import SyncRequest, SyncResponse


def sync_group(state: ShardState, request: SyncRequest, token: object, now: Moment) -> None:
    """Answer at once, or park `token` until the leader's assignment is committed."""
    error = _validate(state, request)
    if error is not ErrorCode.NONE:
        state.reply(token, SyncResponse(error=error))
        return
    group = state.groups[request.key]
    member = group.members[request.member_id]
    rebalance.received_sync(state, group, request.member_id)
    if group.state is not COMPLETING_REBALANCE:
        image = state.durable.images[request.key]
        assignment = next(
            (m.assignment for m in image.members if m.member_id == request.member_id), b""
        )
        state.restart_session(member, now)
        state.reply(
            token,
            SyncResponse(
                error=ErrorCode.NONE,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                assignment=assignment,
            ),
            after_commit=True,
        )
        return
    state.park_sync(group, member, token)
    if group.leader != request.member_id:
        return
    image = group.image(dict(request.assignments), now.wall_ms)
    if image_size(image) > state.config.operation_bytes_max:
        # Kafka gives the same answer if the record is too large for the topic.
        rebalance.propagate_error(state, group, ErrorCode.UNKNOWN_SERVER_ERROR, now)
        rebalance.rebalance_or_complete_join(state, group, now)
        return
    rebalance.complete_sync(state, group, image, now)


def _validate(state: ShardState, request: SyncRequest) -> ErrorCode:
    if not request.key.group_id:
        return ErrorCode.INVALID_GROUP_ID
    group = state.groups.get(request.key)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate(request.member_id, request.instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol, group.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual
