from dataclasses import dataclass
from typing import Any

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.retention import expired_segments

NOW = 10_000


@dataclass
class FakeSegment:
    base_offset: int
    size: int
    timestamp: int
    created_ms: int = 0


def expired(segments: list[FakeSegment], *, end: int, committed: int, **config: Any) -> int:
    return expired_segments(
        segments,
        end,
        config=LogConfig(**{"retention_ms": -1, **config}),
        high_watermark=committed,
        now_ms=NOW,
        timestamp_of=lambda segment: segment.timestamp,
    )


SEGMENTS = [
    FakeSegment(0, 100, 5000),
    FakeSegment(10, 100, 7000),
    FakeSegment(20, 100, 6000),
    FakeSegment(30, 50, 9999),
]


@pytest.mark.parametrize(
    ("config", "committed", "count"),
    [
        ({}, 40, 0),
        ({"retention_ms": 4999}, 40, 1),
        ({"retention_ms": 5000}, 40, 0),
        ({"retention_ms": 3500}, 40, 1),
        ({"retention_ms": 2999}, 40, 3),
        ({"retention_ms": 2999}, 29, 2),
        ({"retention_ms": 2999}, 9, 0),
        ({"retention_ms": 0}, 40, 4),
        ({"retention_ms": 0}, 39, 3),
        ({"retention_bytes": 350}, 40, 0),
        ({"retention_bytes": 251}, 40, 0),
        ({"retention_bytes": 250}, 40, 1),
        ({"retention_bytes": 0}, 40, 4),
        ({"retention_bytes": 250, "retention_ms": 2999}, 40, 3),
        ({"retention_bytes": 0, "retention_ms": 0, "delete_policy": False}, 40, 0),
    ],
)
def test_segments_expire_oldest_first_and_without_gaps(
    config: dict[str, Any], committed: int, count: int
) -> None:
    assert expired(SEGMENTS, end=40, committed=committed, **config) == count


def test_an_empty_active_segment_stays() -> None:
    segments = [FakeSegment(0, 100, 5), FakeSegment(10, 0, -1)]
    assert expired(segments, end=10, committed=10, retention_ms=0) == 1


def test_records_of_the_future_keep_their_segment_and_those_behind_it() -> None:
    """As in Kafka (`UnifiedLog.deleteRetentionMsBreachedSegments`), which warns of them."""
    segments = [
        FakeSegment(0, 100, 5000),
        FakeSegment(10, 100, NOW + 50_000),
        FakeSegment(20, 100, 5000),
    ]
    assert expired(segments, end=30, committed=30, retention_ms=1000) == 1


def test_without_timestamps_the_age_of_the_file_counts() -> None:
    segments = [FakeSegment(0, 100, -1, created_ms=8000), FakeSegment(10, 1, -1, created_ms=9500)]
    assert expired(segments, end=11, committed=11, retention_ms=1999) == 1
    assert expired(segments, end=11, committed=11, retention_ms=2000) == 0
