"""What a follower asks of a leader for one partition, and what it is told.

Offsets count records, sizes bytes; -1 is unknown or none. The wire format is in
partition_service.proto (ReplicateRequest, ReplicateResponse).
"""

from typing import NamedTuple

from highwater.model.ids import TopicId

NONE = -1


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
    records: memoryview
    """Whole batches from `fetch_offset` on; may be empty."""
