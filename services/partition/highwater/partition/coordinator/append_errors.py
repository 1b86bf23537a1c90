"""The error codes that clients get when a coordinator's log refuses an append or is too slow.

Kafka: `GroupCoordinatorService.handleOperationException`.
"""

from collections.abc import Mapping
from typing import Final

from highwater.kafka.error_codes import ErrorCode

_TOLD: Final[Mapping[int, ErrorCode]] = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # Of a transaction whose marker waited for the log when this was decided: the shard, loaded again,
    # decides anew.
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def client_error(append_error: int) -> ErrorCode:
    """The code for clients; UNKNOWN_SERVER_ERROR if no retry can help (a batch too large)."""
    return _TOLD.get(append_error, ErrorCode.UNKNOWN_SERVER_ERROR)
