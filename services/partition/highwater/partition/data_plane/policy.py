"""What a topic's configs mean for an append, as plain values that the hot path reads."""

from dataclasses import dataclass, field
from typing import Final

ANY_AGE: Final = 2**63 - 1
DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""Sixty times the default max.message.bytes, so far more than honest records unpack to; and since
a decompressor may hold twice as much for a moment, small next to a node's memory."""


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
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    """Deep validation gives up on a batch that unpacks to more."""

    # What follows from the configs, worked out once and not for each append:

    batch_bytes_max: int = field(init=False)
    """Of one batch, by both limits."""
    deep: bool = field(init=False)
    """True if the records themselves are looked at."""
    plain: bool = field(init=False)
    """True if the leader need only look at what every header has."""

    def __post_init__(self) -> None:
        """Fills in the fields that follow from the others."""
        deep = self.compacted or self.validate_records
        other = deep or self.log_append_time or self.timestamp_before_ms_max < ANY_AGE
        object.__setattr__(self, "batch_bytes_max", min(self.message_bytes_max, self.segment_bytes))
        object.__setattr__(self, "deep", deep)
        object.__setattr__(self, "plain", not other)
