"""The effects of a replica's events, which its shell carries out in order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLeading:
    """Note in the log that the epoch begins here (KIP-101), then accept appends."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochBehind:
    """Note in the log that its records from `late_offset` on have `late_epoch`.

    They were being written while this replica came to lead, so the log may know of newer epochs that
    begin there. These had no records and go. A leader's present epoch begins behind the late records.
    """

    late_epoch: int
    late_offset: int
    leader_epoch: int
    """The present one; -1 if this replica follows by now."""
    start_offset: int
    """Where the late records end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLeading:
    """Answer the appends that wait here with an unknown outcome, and the fetches that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFollowing:
    """Fetch from this leader in this epoch, and from nobody if it is -1."""

    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFollowing:
    """Fetch no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send AlterPartition; `IsrAnswered` or `IsrUnanswered` with this attempt has to follow."""

    attempt: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    node_epochs: tuple[int, ...]
    """Parallel to `isr` (KIP-903): the node epochs under which they fetched; -1 if they have not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateLog:
    """Cut the log and its epoch cache, then tell `LogTruncated`; no fetch until then.

    Epochs that begin at or after the offset go even if the log ends there already: they held no
    records, and as long as they stay the leader finds the logs divergent.
    """

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLog:
    """Drop the whole log and begin at the offset, then tell `LogTruncated`."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceLogStart:
    """Delete the records before the offset, then tell `LogStartKept` when that is on disk."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkMoved:
    """Everything below is committed: acknowledge, and answer fetches that waited."""

    high_watermark: int


Effect = (
    StartLeading
    | BeginEpochBehind
    | StopLeading
    | StartFollowing
    | StopFollowing
    | ProposeIsr
    | TruncateLog
    | RestartLog
    | AdvanceLogStart
    | HighWatermarkMoved
)


def moved(high_watermark: int | None) -> list[Effect]:
    """The effect of a high watermark that moved; none if it did not (None)."""
    return [] if high_watermark is None else [HighWatermarkMoved(high_watermark=high_watermark)]
