"""Which part of a log may be cleaned, and when; test_compaction_plan has the rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning.candidates import candidate_of
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.log.log import PartitionLog
from tests.support.compacted_logs import keyed_batch
from tests.support.log_batches import append, open_log

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(compact=True)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    made = open_log(tmp_path / "topic-0", CONFIG)
    for age in (3_000, 2_000, 1_000):
        append(made, keyed_batch([(b"a", b"1"), (b"b", b"1")], timestamp_ms=NOW_MS - age))
        made.roll()
    made.stored_high_watermark = made.log_end_offset
    return made


def entry(log: PartitionLog) -> HostedLog:
    return HostedLog(log, None, b"")  # type: ignore[arg-type]  # Only the log is looked at.


def due(log: PartitionLog, **configs: float) -> bool:
    log.reconfigure(replace(CONFIG, **configs))  # type: ignore[arg-type]
    found = candidate_of(entry(log), NOW_MS)
    assert found is not None
    return found.due


def test_a_log_that_is_not_compacted(log: PartitionLog) -> None:
    log.reconfigure(LogConfig())
    assert candidate_of(entry(log), NOW_MS) is None


def test_sealed_and_committed_and_dirty(log: PartitionLog) -> None:
    found = candidate_of(entry(log), NOW_MS)
    assert found is not None
    assert (found.part.start, found.part.end, found.part.dirty_ratio) == (0, 6, 1.0)
    log.stored_high_watermark, log.cleaning.first_dirty = 5, 2
    found = candidate_of(entry(log), NOW_MS)
    assert found is not None
    assert (found.part.first_dirty, found.part.end, found.part.dirty_ratio) == (2, 4, 0.5)
    log.cleaning.first_dirty = 4
    assert not due(log)


def test_ratio_and_lags(log: PartitionLog) -> None:
    assert due(log)
    assert not due(log, min_cleanable_dirty_ratio=1.0)
    assert due(log, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=2_999)
    assert not due(log, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=3_000)
    log.cleaning.first_dirty = 2
    assert not due(log, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=2_000)
    log.cleaning.first_dirty = 0
    assert not due(log, min_compaction_lag_ms=3_001)
    assert due(log, min_compaction_lag_ms=1_500)
    found = candidate_of(entry(log), NOW_MS)
    assert found is not None
    assert found.part.end == 4
