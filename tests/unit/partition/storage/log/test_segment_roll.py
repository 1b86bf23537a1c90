"""When a segment ends, and how the next one begins."""

from pathlib import Path

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.config import LogConfig
from tests.support.log_batches import (
    ManualClock,
    append,
    append_info,
    make_batch,
    open_log,
    read_all,
)


def test_rolls_by_time_from_the_segments_first_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000, segment_jitter_ms=100))
    append(log, make_batch(timestamps=(5000,)), epoch=0)
    append(log, make_batch(timestamps=(5900,)))
    assert len(log.extent.all) == 1
    append(log, make_batch(timestamps=(5901,)))
    assert [segment.base_offset for segment in log.extent.all] == [0, 2]
    append(log, make_batch(timestamps=(5902,)))
    assert len(log.extent.all) == 2
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clean=True)
    append(log, make_batch(timestamps=(6902,)))
    assert [segment.base_offset for segment in log.extent.all] == [0, 2, 4]


def test_rolls_by_the_clock_if_records_have_no_timestamps(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clock=clock)
    append(log, make_batch(timestamps=(-1,)), epoch=0)
    clock.now_ms += 1000
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.extent.all) == 1
    clock.now_ms += 1
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.extent.all) == 2


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=1, segment_index_bytes=36))
    for number in range(8):
        append(log, make_batch(timestamps=(number,)), epoch=0)
    assert len(log.extent.all) > 1
    assert all(len(segment.time_index) <= 3 for segment in log.extent.all)
    assert len(read_all(log)) == 8


def test_rolls_when_a_relative_offset_would_not_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    far = make_batch(base_offset=2**31 - 1)
    # A compacted log may have such a gap; a leader never makes one.
    log.writer.append(
        append_info([far], [2**31 - 1], next_offset=2**31, max_timestamp=(1000, 2**31 - 1), epoch=0)
    )
    assert len(log.extent.all) == 1
    far = make_batch(base_offset=2**31)
    log.writer.append(
        append_info([far], [2**31], next_offset=2**31 + 1, max_timestamp=(1000, 2**31), epoch=0)
    )
    assert [segment.base_offset for segment in log.extent.all] == [0, 2**31]


def test_a_roll_syncs_the_old_segment_and_leaves_a_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    now = ManualClock().now_ms
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(now,))
    append(log, batch, epoch=0)
    assert log.durability.recovery_point == 0
    log.roll()
    assert log.durability.recovery_point == 1
    assert (tmp_path / "topic-0" / "00000000000000000001.snapshot").exists()
    log.roll()
    assert len(log.extent.all) == 2, "an empty segment is not rolled"
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", recovery_point=1)
    assert log.producers.states.check(5, 0, 1, 1) == ACCEPT
    assert log.producers.states.check(5, 0, 0, 0) == 0
