"""How old clients are told that a newer producer has taken their transactional id (KIP-588)."""

from highwater.kafka.error_codes import ErrorCode


def fenced_for(error: ErrorCode, version: int, *, knows_from: int) -> ErrorCode:
    """PRODUCER_FENCED, which versions before `knows_from` know as INVALID_PRODUCER_EPOCH."""
    if error is ErrorCode.PRODUCER_FENCED and version < knows_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
