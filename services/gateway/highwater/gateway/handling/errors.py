"""From what went wrong behind the gateway to the error code that a Kafka client is told."""

from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import CallOutcomeUnknownError, ControllerCallError
from highwater.model.errors import (
    HighwaterError,
    NotControllerError,
    UnreachableError,
)

CODES: Final[dict[type[BaseException], ErrorCode]] = {
    # Nothing was done: admin clients look for the controller again and repeat the request.
    NotControllerError: ErrorCode.NOT_CONTROLLER,
    UnreachableError: ErrorCode.NOT_CONTROLLER,
    # Something may have been done, which is what this code means to Kafka's admin clients.
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
    """The code of an error of ours; UNKNOWN_SERVER_ERROR for those that nobody foresaw."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR


def leader_code(error: HighwaterError) -> ErrorCode:
    """The code for a question to a partition's leader that did not get through.

    A leader that cannot be reached is one that the client should ask the metadata about again.
    """
    if isinstance(error, UnreachableError):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return kafka_code(error)


def group_code(code: int) -> int:
    """What group clients are told for a code of the log below the coordinator.

    Kafka: GroupCoordinatorService.handleOperationException. Clients end on codes that they do not
    expect from a coordinator, such as a timeout.
    """
    return int(_OF_GROUPS.get(code, code))
