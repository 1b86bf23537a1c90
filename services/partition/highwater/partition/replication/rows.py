"""A follower's request row for one partition, and the leader's answer row.

Offsets count records, sizes bytes; -1 means unknown or none. The wire format is in
partition_service.proto (ReplicateRequest, ReplicateResponse).
"""

from dataclasses import dataclass
from typing import NamedTuple

from highwater.model.ids import TopicId

NONE = -1


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Whole batches in a segment file of the leader, for a follower that can open it.

    Its `len` is that of the batches in bytes, so it can take their place.
    """

    path: str
    """Relative to the log directory."""
    log_dir: int
    """The log directory's index."""
    inode: int
    position: int
    length: int
    last_epoch: int
    """Leader epoch of the last record. A log that was truncated and written again may have other
    records in this place, but not with this epoch at the end: the same epoch at the same offset
    means the same record, after the same records (R2)."""

    def __len__(self) -> int:
        return self.length


class Asked(NamedTuple):
    """A follower's place: it has every record before `fetch_offset`."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    """The leader epoch that the follower knows; always set."""
    fetch_offset: int
    """The follower's log end offset."""
    last_fetched_epoch: int
    """Leader epoch of the record before `fetch_offset`; -1 if the log never had one (KIP-595)."""
    kept_log_start: int = 0
    """Where the follower's log begins, after a crash, too. Not repeated by the answer."""

    @property
    def place(self) -> tuple[TopicId, int, int, int, int]:
        """The fields that the answer repeats."""
        return self[:5]


class Answered(NamedTuple):
    """A leader's answer to an `Asked`; repeats its `place`."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    error_code: int
    """Kafka's error code. OFFSET_OUT_OF_RANGE comes with the leader's offsets."""
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: int
    """-1 if the follower's log is a prefix of the leader's."""
    diverging_end_offset: int
    records: memoryview | SegmentPlace
    """Whole batches from `fetch_offset` on, or their place; may be empty."""
