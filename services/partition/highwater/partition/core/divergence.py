"""Where two logs diverge, told by leader epochs and never by high watermarks (KIP-101, 279, 595).

The leader compares the last epoch of a fetcher's log with its own epochs; the follower cuts its
log to the end of the largest epoch that both may know, and asks again until nothing diverges.
"""

from typing import Final

from highwater.partition.core.leader_epochs import LeaderEpochView
from highwater.partition.core.replica_effects import RestartLog, TruncateLog
from highwater.partition.core.replica_events import Diverged, OutOfRange

MATCHES: Final = None
UNKNOWN_EPOCH: Final = (-1, -1)
"""This log does not know the fetcher's last epoch, so the two logs cannot be compared."""


def divergence(
    epochs: LeaderEpochView, log_end_offset: int, fetch_offset: int, last_fetched_epoch: int
) -> tuple[int, int] | None:
    """None if the fetcher's log is a prefix of this one; else (epoch, where it ends here).

    `last_fetched_epoch` is the epoch of the record before `fetch_offset`, -1 if there is none.
    Source: Kafka's `Partition.readRecords`.
    """
    if last_fetched_epoch == epochs.latest and fetch_offset <= log_end_offset:
        return MATCHES
    if last_fetched_epoch < 0:
        return MATCHES if fetch_offset <= log_end_offset else UNKNOWN_EPOCH
    epoch, end = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if end < 0:
        return UNKNOWN_EPOCH
    if epoch < last_fetched_epoch or end < fetch_offset:
        return epoch, end
    return MATCHES


def truncation_offset(
    epochs: LeaderEpochView, log_end_offset: int, leader_epoch: int, leader_end_offset: int
) -> int:
    """Where a follower cuts its log, told that `leader_epoch` ends there in the leader's log.

    If the follower does not know that epoch, its largest smaller one ends the common part at the
    latest; the next fetch finds out whether earlier (KIP-279). Source: Kafka's
    `AbstractFetcherThread.getOffsetTruncationState`.
    """
    own_epoch, own_end = epochs.end_offset_for(leader_epoch, log_end_offset)
    if own_end < 0:
        return min(leader_end_offset, log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log_end_offset)
    return min(own_end, leader_end_offset, log_end_offset)


def is_about(answer: Diverged | OutOfRange, epochs: LeaderEpochView, log_end_offset: int) -> bool:
    """True if the fetch that was answered asked from the end of the log as it is now."""
    return answer.fetch_offset == log_end_offset and answer.last_fetched_epoch == epochs.latest


def bounded(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """The offset, or the nearer end of the log if that does not reach it."""
    return max(min(offset, log_end_offset), log_start_offset)


def cut_after(
    answer: Diverged | OutOfRange, epochs: LeaderEpochView, log_end_offset: int
) -> TruncateLog | RestartLog | None:
    """How a follower changes its log after its leader's answer; None if it does not.

    If the leader has deleted what comes after our end, the log begins anew where the leader's does.
    If our log reaches beyond the leader's, it is cut there.
    """
    if isinstance(answer, Diverged):
        offset = truncation_offset(epochs, log_end_offset, answer.epoch, answer.end_offset)
        return TruncateLog(offset=offset)
    if log_end_offset > answer.leader_log_end_offset:
        return TruncateLog(offset=answer.leader_log_end_offset)
    if log_end_offset < answer.leader_log_start_offset:
        return RestartLog(offset=answer.leader_log_start_offset)
    return None
