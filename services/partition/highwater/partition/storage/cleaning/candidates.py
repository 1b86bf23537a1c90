"""Chooses the next log to clean (Kafka's `LogCleanerManager.grabFilthiestCompactedLog`)."""

from dataclasses import dataclass

from highwater.partition.storage.cleaning.compaction_plan import Cleanable, cleanable, must_clean
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.log.log import PartitionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A log of a compacted topic, and the part of it that may be cleaned now."""

    entry: HostedLog
    part: Cleanable
    due: bool
    """Whether to clean the log now."""


def candidate_of(entry: HostedLog, now_ms: int) -> Candidate | None:
    """None if there is nothing to compact. Raises LogDirFailure, CorruptLogError.

    Only records below the last stable offset are cleaned: whether others stay is not decided.
    """
    log = entry.log
    config = log.config
    if not config.compact:
        return None
    part = cleanable(
        log.cleaning.spans(),
        first_dirty=log.cleaning.first_dirty,
        stable_offset=log.stored_stable_offset,
        now_ms=now_ms,
        lag_ms_min=config.min_compaction_lag_ms,
    )
    due = must_clean(
        _waiting_since(log, part, now_ms),
        now_ms=now_ms,
        lag_ms_max=config.max_compaction_lag_ms,
        ratio=part.dirty_ratio,
        ratio_min=config.min_cleanable_dirty_ratio,
    )
    return Candidate(entry=entry, part=part, due=due)


def _waiting_since(log: PartitionLog, part: Cleanable, now_ms: int) -> int:
    if not part.dirty_bytes or log.config.max_compaction_lag_ms >= now_ms:
        return now_ms  # Usually there is no limit, so no timestamp need be read.
    since = log.cleaning.waiting_since(part.first_dirty, part.end)
    return now_ms if since is None else since
