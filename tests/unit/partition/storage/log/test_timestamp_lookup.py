import os
import random
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.timestamp_lookup import first_at_or_after, first_with_largest
from tests.support.log_batches import append, make_batch, open_log


@pytest.fixture
def stamps() -> list[int]:
    generator = random.Random(7)
    return [1000 + 10 * n + generator.randrange(-200, 200) for n in range(300)]


@pytest.fixture
def log(tmp_path: Path, stamps: list[int]) -> PartitionLog:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=200))
    for first in range(0, 300, 12):
        batches = [
            make_batch(timestamps=tuple(stamps[n : n + 3]), compression=n % 5)
            for n in range(first, first + 12, 3)
        ]
        append(log, *batches, epoch=first // 100)
    return log


def test_first_at_or_after_finds_the_same_as_a_scan(log: PartitionLog, stamps: list[int]) -> None:
    segment = log.extent.active
    for start in (0, 1, 100, 299):
        for timestamp in range(700, 4300, 37):
            wanted = next((n for n in range(start, 300) if stamps[n] >= timestamp), None)
            found = first_at_or_after(os.pread, segment, timestamp, start)
            if wanted is None:
                assert found is None
            else:
                assert found == (stamps[wanted], wanted, log.epochs.cache.epoch_for(wanted))


def test_first_with_largest(log: PartitionLog, stamps: list[int]) -> None:
    largest = max(stamps)
    assert first_with_largest(os.pread, log.extent.active) == (largest, stamps.index(largest))


def test_a_batch_that_cannot_be_decompressed_is_answered_from_its_header(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(timestamps=(10, 20), compression=4), epoch=0)
    file = Path(log.extent.active.file)
    data = bytearray(file.read_bytes())
    data[61:] = b"\0" * (len(data) - 61)
    file.write_bytes(data)
    assert first_at_or_after(os.pread, log.extent.active, 15, 0) == (20, 0, 0)
    assert first_at_or_after(os.pread, log.extent.active, 21, 0) is None
