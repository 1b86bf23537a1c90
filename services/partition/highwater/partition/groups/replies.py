"""How the group coordinator answers: parked calls, calls while it loads, and errors.

Kafka: `GroupCoordinatorService.handleOffsetFetchException`.
"""

from typing import Final

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.replies import Replies
from highwater.partition.groups.core.values import JoinResponse, Response, SyncResponse
from highwater.partition.groups.handlers import heartbeat, join_group, sync_group


def encode(call: CoordinatorCall, response: Response) -> bytes:
    """The body that answers a parked JoinGroup or SyncGroup."""
    if isinstance(response, JoinResponse):
        return join_group.encode(response, call.api_version)
    return sync_group.encode(response, call.api_version)


def error_for(api_key: int, error: int) -> int:
    """The code as the clients of this API understand it.

    Consumers before 3.9 treat COORDINATOR_NOT_AVAILABLE in an OffsetFetch response as fatal. On
    NOT_COORDINATOR they look for the coordinator and ask again.
    """
    if api_key == ApiKey.OFFSET_FETCH and error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error


def while_loading(call: CoordinatorCall) -> bytes | None:
    """What answers a call while its shard is being loaded; None for the error that says so.

    As in Kafka, heartbeats succeed and SyncGroup sends members back to JoinGroup, so that they
    need not look for the coordinator again.
    """
    if call.api_key == ApiKey.HEARTBEAT:
        return heartbeat.encode(ErrorCode.NONE, call.api_version)
    if call.api_key == ApiKey.SYNC_GROUP:
        response = SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS)
        return sync_group.encode(response, call.api_version)
    return None


GROUP_REPLIES: Final = Replies(encode=encode, error_for=error_for, while_loading=while_loading)
