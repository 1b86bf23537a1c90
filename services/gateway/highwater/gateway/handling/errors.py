"""Translates errors behind the gateway into the error codes that Kafka clients get.

The transport's own error, `highwater.rpc.errors.RpcError`, is none of ours and does not come here:
`clients.node_link` makes UnreachableError of it, whatever the status.
"""

from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import CallOutcomeUnknownError, ControllerCallError
from highwater.model.errors import (
    HighwaterError,
    NotControllerError,
    UnreachableError,
)

CODES: Final[dict[type[BaseException], ErrorCode]] = {
    # The call had no effect: admin clients look up the controller and retry.
    NotControllerError: ErrorCode.NOT_CONTROLLER,
    UnreachableError: ErrorCode.NOT_CONTROLLER,
    # The call may have had an effect, as this code says to Kafka's admin clients.
    CallOutcomeUnknownError: ErrorCode.REQUEST_TIMED_OUT,
    ControllerCallError: ErrorCode.UNKNOWN_SERVER_ERROR,
    TimeoutError: ErrorCode.REQUEST_TIMED_OUT,
}

_OF_GROUPS: Final[dict[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def kafka_code(error: BaseException) -> ErrorCode:
    """The code of one of our errors; UNKNOWN_SERVER_ERROR for unexpected ones."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def leader_code(error: HighwaterError) -> ErrorCode:
    """The code for a failed call to a partition's leader.

    If the leader cannot be reached, the code makes the client refresh its metadata, as that of a Kafka
    broker which leads no longer.
    """
    if isinstance(error, UnreachableError):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return kafka_code(error)


def group_code(code: int) -> int:
    """Translates a code of the coordinator's log into one that its clients expect.

    Kafka: GroupCoordinatorService.handleOperationException, TransactionStateManager. Clients give up on
    codes that a coordinator does not send, such as a timeout.
    """
    return int(_OF_GROUPS.get(code, code))
