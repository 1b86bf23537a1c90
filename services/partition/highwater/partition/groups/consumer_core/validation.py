"""Requests that are refused for what they are, in Kafka's words.

Kafka: `GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid`,
`Utils.throwIfRegularExpressionIsInvalid`.
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.regex import InvalidRegexError, compile_pattern
from highwater.partition.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberMetadata,
)
from highwater.partition.groups.consumer.requests import HeartbeatRequest
from highwater.partition.groups.consumer.sizes import member_memory, member_size
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.core.values import GroupKey


def check_request(state: ConsumerState, request: HeartbeatRequest) -> None:
    """Raise Refusal for a request that no group could take."""
    problem = _problem(request)
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    if request.assignor is not None and request.assignor not in state.assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. "
            f"Supported assignors: {', '.join(state.assignors)}.",
        )
    if request.topic_names is not None or request.topic_regex is not None:
        wanted = MemberMetadata(
            instance_id=request.instance_id,
            topic_names=request.topic_names or frozenset(),
            topic_regex=request.topic_regex or "",
        )
        if member_size(wanted) > state.config.list_bytes_max:
            raise Refusal(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames is too large.")
        check_memory(state, request.key, request.member_id, wanted)
    group = state.groups.get(request.key)
    if request.topic_regex and (group is None or request.topic_regex not in group.regex_readers):
        _check_regex(request.topic_regex)


def check_memory(
    state: ConsumerState, key: GroupKey, member_id: str, wanted: MemberMetadata
) -> None:
    """Raise Refusal if there is no memory for a new member, or for one that wants other topics."""
    grows = member_memory(wanted) - state.memory_of(key, member_id)
    if not state.shard.may_grow(key.instance, grows):
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED, "The coordinator has reached its maximum capacity."
        )


def _problem(request: HeartbeatRequest) -> str | None:
    epoch = request.epoch
    if (request.makes_its_id or epoch > 0 or epoch == LEAVE_EPOCH) and _blank(request.member_id):
        return "MemberId can't be empty."
    if _blank(request.key.group_id):
        return "GroupId can't be empty."
    if _blank(request.instance_id):
        return "InstanceId can't be empty."
    if _blank(request.rack_id):
        return "RackId can't be empty."
    if epoch == JOIN_EPOCH:
        return _join_problem(request)
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _join_problem(request: HeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms is None:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        # An empty list or expression is a member that reads nothing.
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _check_regex(text: str) -> None:
    try:
        compile_pattern(text)
    except InvalidRegexError as error:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex {error}"
        ) from error
