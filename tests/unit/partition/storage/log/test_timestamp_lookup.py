import os
import random
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.timestamp_lookup import (
    BatchQuestion,
    Found,
    batch_with_largest,
    first_batch,
    largest_with_records,
)
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


def answered(question: BatchQuestion | None) -> Found | None:
    return None if question is None else question.answer(question.segment.open())


def test_the_first_batch_has_what_a_scan_finds(log: PartitionLog, stamps: list[int]) -> None:
    segment = log.extent.active
    for start in (0, 1, 100, 299):
        for timestamp in range(700, 4300, 37):
            wanted = next((n for n in range(start, 300) if stamps[n] >= timestamp), None)
            question = first_batch(os.pread, segment, timestamp, start)
            found = answered(question)
            if wanted is None:
                assert found is None
            elif found is None:
                assert question is not None
                assert question.next_offset <= wanted, "the record lies before the start offset"
            else:
                assert found == (stamps[wanted], wanted, log.epochs.cache.epoch_for(wanted))


def test_the_batch_with_the_largest_timestamp(log: PartitionLog, stamps: list[int]) -> None:
    largest = max(stamps)
    segment = log.extent.active
    assert segment.largest_timestamp() == largest
    question = batch_with_largest(os.pread, segment, largest, 0)
    found = answered(question)
    assert found is not None
    assert found[:2] == (largest, stamps.index(largest))
    assert question is not None
    assert question.next_offset == stamps.index(largest) // 3 * 3 + 3
    assert largest_with_records(os.pread, segment) == largest
    assert answered(batch_with_largest(os.pread, segment, largest + 1, 0)) is None


def test_a_batch_that_cannot_be_decompressed_is_answered_from_its_header(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(timestamps=(10, 20), compression=4), epoch=0)
    file = Path(log.extent.active.file)
    data = bytearray(file.read_bytes())
    data[61:] = b"\0" * (len(data) - 61)
    file.write_bytes(data)
    assert answered(first_batch(os.pread, log.extent.active, 15, 0)) == (20, 0, 0)
    assert answered(first_batch(os.pread, log.extent.active, 15, 1)) == (20, 1, 0)
    assert first_batch(os.pread, log.extent.active, 21, 0) is None


def test_a_batch_that_was_cut_off_meanwhile_has_no_answer(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(timestamps=(9000,)), epoch=0)
    question = first_batch(os.pread, log.extent.active, 9000, 0)
    log.truncate_to(1)
    assert answered(question) is None
