"""What a follower asks of a leader for one partition, and what it is told.

Offsets count records, sizes bytes; -1 is unknown or none. The wire format is in
partition_service.proto (ReplicateRequest, ReplicateResponse).
"""

from dataclasses import dataclass
from typing import NamedTuple

from highwater.model.ids import TopicId

NONE = -1


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Whole batches in a segment file of the leader, for a follower that can open it.

    It is as long as they are (`len`, bytes), so that it can stand for them.
    """

    path: str
    """Relative to the log directory."""
    log_dir: int
    """The index of that."""
    inode: int
    position: int
    length: int
    last_epoch: int
    """Of the last record. A log that was cut and written anew may have other records in the place,
    but not with that epoch at the end: the same epoch at the same offset is the same record, after
    the same records (R2)."""

    def __len__(self) -> int:
        return self.length


class Asked(NamedTuple):
    """A follower's place: it has everything before `fetch_offset`."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    """That the follower knows; it always says one."""
    fetch_offset: int
    """Its log end offset."""
    last_fetched_epoch: int
    """Of the record before `fetch_offset`; -1 if its log has had none (KIP-595)."""


class Answered(NamedTuple):
    """A leader's answer to an `Asked`, whose fields it repeats."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    error_code: int
    """Kafka's. OFFSET_OUT_OF_RANGE comes with the leader's offsets."""
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    diverging_epoch: int
    """-1 if the follower's log is a prefix of the leader's."""
    diverging_end_offset: int
    records: memoryview | SegmentPlace
    """Whole batches from `fetch_offset` on, or where they lie; may be empty."""
