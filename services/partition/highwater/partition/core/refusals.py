"""Why a replica does not serve a client or a follower, in Kafka's error codes.

The hot path asks `core.replica.Replica`; this is what it looks up when the answer is not "go on".
"""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.transitions import Role


def refuse_role(role: Role, nobody_else_leads: bool, resigned: bool) -> int:
    """The error code of a replica that does not lead in that epoch, or that has resigned.

    KAFKA_STORAGE_ERROR says that the log failed. Clients get it only if no other replica leads or
    is about to lead.
    """
    if role is Role.OFFLINE and nobody_else_leads and not resigned:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def refuse_epoch(asked: int, leader_epoch: int) -> int:
    """The error code for a read that names a leader epoch (KIP-320); 0 if the epoch is the present
    one, or if the read names none (-1).
    """
    if asked < 0 or asked == leader_epoch:
        return 0
    if asked < leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def refuse_deletion(offset: int, high_watermark: int) -> int:
    """The error code of DeleteRecords up to `offset`; 0 if everything before it is committed."""
    return 0 if 0 <= offset <= high_watermark else ErrorCode.OFFSET_OUT_OF_RANGE


def log_failure_code(resigned: bool) -> ErrorCode:
    """The error code of an append that may be in a log that failed.

    If another replica leads soon, its log knows better.
    """
    return ErrorCode.REQUEST_TIMED_OUT if resigned else ErrorCode.KAFKA_STORAGE_ERROR


def commit_timeout_code(under_min_isr: bool) -> ErrorCode:
    """The error code of an acks=all append that was not committed in time; it stays in the log
    (KIP-966).
    """
    if under_min_isr:
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.REQUEST_TIMED_OUT
