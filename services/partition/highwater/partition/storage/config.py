"""What one log needs to know of its topic's configs, as plain numbers."""

from dataclasses import dataclass
from typing import Final, Self

from highwater.model.topic_config import TopicConfig
from highwater.partition.core.producer_budget import PER_PARTITION_DEFAULT, ProducerLimits

UNLIMITED: Final = -1
NEVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's storage configs, under Kafka's names with underscores and units last.

    Milliseconds and bytes unless said. `UNLIMITED` (-1) switches a retention limit off.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = UNLIMITED
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    max_message_bytes: int = 1048588
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    delete_policy: bool = True
    """False if cleanup.policy has no `delete`: then nothing expires by time or size."""
    compact: bool = False
    """Whether cleanup.policy has `compact`: offsets may then have gaps."""
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    min_cleanable_dirty_ratio: float = 0.5
    """A share of bytes in [0, 1]."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    producers_max: int = PER_PARTITION_DEFAULT
    """Producer ids with state; beyond it the longest silent one is forgotten."""

    @classmethod
    def default(cls, producers: ProducerLimits) -> Self:
        """For logs whose topic is not known yet."""
        return cls(
            producer_id_expiration_ms=producers.expiration_ms,
            producers_max=producers.per_partition,
        )

    @classmethod
    def of(
        cls,
        topic: TopicConfig,
        *,
        jitter_share: float = 0.0,
        producers: ProducerLimits,
    ) -> Self:
        """A topic's configs; `jitter_share` in [0, 1) is drawn once per log by the caller."""
        jitter_ms = min(topic.segment_jitter_ms, topic.segment_ms)
        return cls(
            segment_bytes=topic.segment_bytes,
            segment_ms=_segment_ms(topic),
            segment_jitter_ms=int(jitter_ms * jitter_share),
            segment_index_bytes=topic.segment_index_bytes,
            index_interval_bytes=topic.index_interval_bytes,
            retention_ms=topic.retention_ms,
            retention_bytes=topic.retention_bytes,
            flush_messages=topic.flush_messages,
            flush_ms=topic.flush_ms,
            max_message_bytes=topic.max_message_bytes,
            file_delete_delay_ms=topic.file_delete_delay_ms,
            preallocate=topic.preallocate,
            delete_policy="delete" in topic.cleanup_policy,
            compact=topic.compacted,
            delete_retention_ms=topic.delete_retention_ms,
            min_compaction_lag_ms=topic.min_compaction_lag_ms,
            max_compaction_lag_ms=topic.max_compaction_lag_ms,
            min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
            producer_id_expiration_ms=producers.expiration_ms,
            producers_max=producers.per_partition,
        )


def _segment_ms(topic: TopicConfig) -> int:
    """Only sealed segments are compacted, so none may stay open for longer than that may wait
    (Kafka's `LogConfig.maxSegmentMs`).
    """
    return (
        min(topic.segment_ms, topic.max_compaction_lag_ms) if topic.compacted else topic.segment_ms
    )
