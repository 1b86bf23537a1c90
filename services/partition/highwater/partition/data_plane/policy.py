"""A topic's configs for appends, as plain values that the hot path reads."""

from dataclasses import dataclass, field
from typing import Final

ANY_AGE: Final = 2**63 - 1
CODEC_OF_PRODUCER: Final = -1
DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""Sixty times the default max.message.bytes: far above the size of honest records. A decompressor
may hold twice as much for a moment, still little for a node's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPolicy:
    """Replaced as a whole when the topic's configs change."""

    message_bytes_max: int = 1_048_588
    """max.message.bytes: bytes of one batch as sent, header included."""
    segment_bytes: int = 1 << 30
    """A batch larger than a segment cannot be stored (RECORD_LIST_TOO_LARGE)."""
    log_append_time: bool = False
    """message.timestamp.type=LogAppendTime: the leader stamps batches."""
    timestamp_before_ms_max: int = ANY_AGE
    """message.timestamp.before.max.ms"""
    timestamp_after_ms_max: int = 3_600_000
    """message.timestamp.after.max.ms"""
    compacted: bool = False
    validate_records: bool = False
    """record.validation=deep, always so on compacted topics (decision 2)."""
    codec: int = CODEC_OF_PRODUCER
    """compression.type as a codec's number: batches of others are converted (`conversions`)."""
    compression_level: int | None = None
    """compression.gzip.level, .lz4.level or .zstd.level; None if the codec has no levels."""
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    """Deep validation and conversion refuse a batch that decompresses to more."""

    # Derived from the configs once, not for each append:

    batch_bytes_max: int = field(init=False)
    """Maximum size of a batch, by both limits."""
    deep: bool = field(init=False)
    """True if the records themselves are validated."""
    plain: bool = field(init=False)
    """True if the leader only has to check the header."""

    def __post_init__(self) -> None:
        """Computes the derived fields."""
        deep = self.compacted or self.validate_records
        other = deep or self.log_append_time or self.timestamp_before_ms_max < ANY_AGE
        object.__setattr__(self, "batch_bytes_max", min(self.message_bytes_max, self.segment_bytes))
        object.__setattr__(self, "deep", deep)
        object.__setattr__(self, "plain", not other)
