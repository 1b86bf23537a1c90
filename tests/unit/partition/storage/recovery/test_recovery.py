from pathlib import Path

import pytest

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import DamagedHeaderError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.recovery.recovery import (
    WINDOW_BYTES,
    BatchReplay,
    rebuild_indexes,
    recover_segment,
)
from tests.support.log_batches import append, append_info, make_batch, open_log

FILES = FileSystem()


def recovered(log: PartitionLog, *, expected: int = 0, gaps: bool = True) -> tuple[int, int]:
    replay = BatchReplay(epochs=LeaderEpochCache(), producers=ProducerStates(), producers_from=0)
    return recover_segment(
        FILES,
        log.extent.active,
        index_interval=100,
        expected_offset=expected,
        gaps_allowed=gaps,
        replay=replay,
    )


def test_batches_larger_than_the_window(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for size in (10, WINDOW_BYTES - 100, 10, WINDOW_BYTES + 5, 2 * WINDOW_BYTES, 10):
        append(log, make_batch(value=b"x" * size), epoch=0)
    assert recovered(log) == (log.extent.size_bytes, 6)


def test_both_rebuilds_make_the_indexes_that_appending_made(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=100))
    for number in range(50):
        append(log, make_batch(timestamps=(1000 + number * 7 % 90,)), epoch=0)
    segment = log.extent.active
    entries = list(segment.index.entries()), list(segment.time_index.entries())
    assert len(entries[0]) > 20
    assert recovered(log) == (log.extent.size_bytes, 50)
    assert (list(segment.index.entries()), list(segment.time_index.entries())) == entries
    rebuild_indexes(FILES, segment, index_interval=100)
    assert (list(segment.index.entries()), list(segment.time_index.entries())) == entries


def rebuilt(log: PartitionLog, *headers: tuple[int, int], end_offset: int) -> tuple[int, int, int]:
    """(first, position, offset that the index ends with) of the damage in batches of a record.

    `headers`: (base offset, last offset delta) to be written over those that are there.
    """
    segment = log.extent.active
    size = segment.size // len(headers)
    with Path(segment.file).open("r+b") as file:
        for number, (base_offset, delta) in enumerate(headers):
            file.seek(number * size)
            file.write(base_offset.to_bytes(8))
            file.seek(number * size + 23)
            file.write(delta.to_bytes(4))
    with pytest.raises(DamagedHeaderError) as told:
        rebuild_indexes(FILES, segment, index_interval=1, end_offset=end_offset)
    last = segment.index.last_entry()
    return told.value.first, told.value.position // size, -1 if last is None else last[0]


@pytest.mark.parametrize(
    ("headers", "damage"),
    [
        (((0, 0), (1, 0), (1, 0), (3, 0)), (2, 2, 1)),
        (((0, 0), (1, 1), (2, 0), (3, 0)), (1, 1, -1)),
        (((0, 0), (1, 0), (2, 0), (9, 0)), (3, 3, 2)),
        (((0, 0), (1, 0), (2, 0), (3, 6)), (3, 3, 2)),
        # There is a gap, so either the batch before it or the one after it is wrong.
        (((0, 0), (1, 0), (4, 0), (3, 0)), (2, 2, 1)),
    ],
)
def test_offsets_rise_up_to_the_next_segment(
    tmp_path: Path, headers: tuple[tuple[int, int], ...], damage: tuple[int, int, int]
) -> None:
    log = open_log(tmp_path / "topic-0")
    for _ in headers:
        append(log, make_batch(), epoch=0)
    assert rebuilt(log, *headers, end_offset=9) == damage


def test_gaps_are_accepted_only_where_compaction_may_have_left_them(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    far = make_batch(base_offset=5)
    log.writer.append(append_info([far], [5], next_offset=6, max_timestamp=(1000, 5), epoch=0))
    assert recovered(log, gaps=True) == (log.extent.size_bytes, 6)
    assert recovered(log, gaps=False) == (log.extent.size_bytes - len(far), 1)
    assert recovered(log, expected=1) == (0, 1)


def test_replay_feeds_epochs_and_producers(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for number in range(4):
        batch = make_batch(producer_id=number, producer_epoch=0, base_sequence=0)
        append(log, batch, epoch=number // 2)
    replay = BatchReplay(epochs=LeaderEpochCache(), producers=ProducerStates(), producers_from=2)
    recover_segment(
        FILES, log.extent.active, index_interval=100, expected_offset=0, gaps_allowed=False,
        replay=replay,
    )  # fmt: skip
    assert replay.epochs.entries() == [(0, 0), (1, 2)]
    assert sorted(entry.producer_id for entry in replay.producers.entries()) == [2, 3]
