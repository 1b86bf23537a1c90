"""PartitionLog in the cases that the model test does not aim at."""

import errno
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from highwater.kafka.records.batch import read_header, set_base_offset_and_epoch
from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage import log_writer
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.environment import InlineEnvironment
from highwater.partition.storage.errors import (
    LogDirFailure,
    OffsetOutOfRange,
    UnsupportedFormatError,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log import PartitionLog
from highwater.partition.storage.stall import FAST_WRITES_TO_RECOVER
from tests.support.log_batches import (
    ManualClock,
    append,
    headers_in,
    make_batch,
    read_all,
    slice_bytes,
)


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    clock: ManualClock | None = None,
    environment: InlineEnvironment | None = None,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> PartitionLog:
    return PartitionLog.open(
        directory,
        topic="topic",
        partition=0,
        config=config or LogConfig(),
        clock=clock or ManualClock(),
        environment=environment,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


# ---- append ----


def test_a_group_is_one_write_whatever_its_pieces(tmp_path: Path) -> None:
    filesystem = FileSystem()
    calls: list[int] = []
    write = filesystem.pwritev

    def counting(fd: int, buffers: list[bytes], position: int) -> int:
        calls.append(len(buffers))
        return write(fd, buffers, position)

    filesystem.pwritev = counting
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)
    calls.clear()
    append(log, *[make_batch() for _ in range(50)])
    assert calls == [50]
    assert len(read_all(log)) == 51


def test_short_writes_are_continued(tmp_path: Path) -> None:
    filesystem = FileSystem()
    write = filesystem.pwritev
    filesystem.pwritev = lambda fd, buffers, position: write(
        fd, [memoryview(b"".join(buffers))[:37]], position
    )
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, *[make_batch(value=b"x" * 100) for _ in range(5)], epoch=0)
    append(log, *[make_batch(value=b"y" * 100) for _ in range(5)])
    assert len(read_all(log)) == 10


def test_more_buffers_than_one_writev_takes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, *[make_batch() for _ in range(2500)], epoch=0)
    assert len(read_all(log)) == 2500


@pytest.mark.parametrize("first", [True, False])
def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, first: bool) -> None:
    filesystem = FileSystem()
    write = filesystem.pwritev
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    if not first:
        append(log, make_batch(), epoch=0)
        append(log, make_batch())
    size, end = log.size_bytes, log.log_end_offset

    def full(fd: int, buffers: list[bytes], position: int) -> int:
        write(fd, [b"".join(buffers)[:11]], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    filesystem.pwritev = full
    log = _with_pwritev(log, full)
    with pytest.raises(LogDirFailure) as failed:
        append(log, make_batch(), make_batch())
    assert failed.value.cause.errno == errno.ENOSPC
    assert log.log_end_offset == end
    assert Path(log.active_segment.file).stat().st_size == size


def _with_pwritev(log: PartitionLog, function: object) -> PartitionLog:
    """The log binds the function when it is opened; a disk fails later."""
    log._pwritev = function
    return log


def test_what_could_not_be_cut_off_is_cut_off_by_recovery(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)
    size = log.size_bytes

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def torn(fd: int, buffers: list[bytes], position: int) -> int:
        os.pwrite(fd, b"".join(buffers)[:30], position)
        return fail()

    filesystem.ftruncate = fail
    with pytest.raises(LogDirFailure) as failed:
        append(_with_pwritev(log, torn), make_batch())
    assert "cut off" in failed.value.__notes__[0]
    assert Path(log.active_segment.file).stat().st_size == size + 30
    log = open_log(tmp_path / "topic-0")
    assert log.truncated_bytes == 30
    assert log.log_end_offset == 1


# ---- roll ----


def test_rolls_before_a_batch_that_would_overflow_also_inside_a_group(tmp_path: Path) -> None:
    size = len(make_batch(value=b"x" * 40))
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=3 * size + 1))
    append(log, *[make_batch(value=b"x" * 40, timestamps=(n,)) for n in range(10)], epoch=0)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert [segment.max_timestamp for segment in log.segments] == [2, 5, 8, 9]
    assert [segment.max_timestamp_offset for segment in log.segments] == [2, 5, 8, 9]
    append(log, make_batch(value=b"x" * 40))
    assert len(log.segments) == 4
    names = sorted(path.name for path in (tmp_path / "topic-0").glob("*.log"))
    assert names[1] == "00000000000000000003.log"


def test_rolls_by_time_from_the_segments_first_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000, segment_jitter_ms=100))
    append(log, make_batch(timestamps=(5000,)), epoch=0)
    append(log, make_batch(timestamps=(5900,)))
    assert len(log.segments) == 1
    append(log, make_batch(timestamps=(5901,)))
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    append(log, make_batch(timestamps=(5902,)))
    assert len(log.segments) == 2
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clean=True)
    append(log, make_batch(timestamps=(6902,)))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_rolls_by_the_clock_if_records_have_no_timestamps(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(segment_ms=1000), clock=clock)
    append(log, make_batch(timestamps=(-1,)), epoch=0)
    clock.now_ms += 1000
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.segments) == 1
    clock.now_ms += 1
    append(log, make_batch(timestamps=(-1,)))
    assert len(log.segments) == 2


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=1, segment_index_bytes=36))
    for number in range(8):
        append(log, make_batch(timestamps=(number,)), epoch=0)
    assert len(log.segments) > 1
    assert all(len(segment.time_index) <= 3 for segment in log.segments)
    assert len(read_all(log)) == 8


def test_rolls_when_a_relative_offset_would_not_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    far = make_batch(base_offset=2**31 - 1)
    # A compacted log may have such a gap; a leader never makes one.
    log.append([far], len(far), [2**31 - 1], [len(far)], 2**31, 1000, 2**31 - 1, 0)
    assert len(log.segments) == 1
    far = make_batch(base_offset=2**31)
    log.append([far], len(far), [2**31], [len(far)], 2**31 + 1, 1000, 2**31, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_a_roll_syncs_the_old_segment_and_leaves_a_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    now = ManualClock().now_ms
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(now,))
    append(log, batch, epoch=0)
    assert log.recovery_point == 0
    log.roll()
    assert log.recovery_point == 1
    assert (tmp_path / "topic-0" / "00000000000000000001.snapshot").exists()
    log.roll()
    assert len(log.segments) == 2, "an empty segment is not rolled"
    log.close(clean=False)
    log = open_log(tmp_path / "topic-0", recovery_point=1)
    assert log.producers.check(5, 0, 1, 1) == ACCEPT
    assert log.producers.check(5, 0, 0, 0) == 0


# ---- read ----


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    for offset in (4, 6):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, end_offset=5)
    assert log.read(5, 100, end_offset=5) is None


def test_a_slice_names_the_file_by_path_and_inode(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    found = log.read(0, 1000, end_offset=1)
    assert found is not None
    assert found.segment.path == "topic-0/00000000000000000000.log"
    assert (tmp_path / found.segment.path).stat().st_ino == found.segment.inode
    assert os.fstat(found.segment.fd).st_ino == found.segment.inode


def test_sequential_reads_after_the_first_touch_no_index(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    for _ in range(300):
        append(log, make_batch(value=b"x" * 300), epoch=0)
    reads: list[int] = []
    pread = filesystem.pread
    filesystem.pread = lambda fd, n, position: reads.append(n) or pread(fd, n, position)
    assert len(read_all(log, 20_000)) == 300
    # Two headers a slice: how large its first batch is, and where the next slice begins.
    assert 3 <= len(reads) <= 14
    assert set(reads) == {61}


def test_pinned_segments_survive_deletion_and_eviction(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=1)
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(value=b"first"), epoch=0)
    found = log.read(0, 1000, end_offset=1)
    assert found is not None
    found.segment.pin()
    log.roll()
    append(log, make_batch(value=b"second"))
    log.advance_log_start(1)
    assert not Path(found.segment.file).exists()
    data = os.pread(found.segment.fd, found.length, found.position)
    assert b"first" in data
    found.segment.unpin()
    assert found.segment.fd < 0


def test_few_descriptors_are_enough_for_many_segments(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=3)
    log = open_log(tmp_path / "topic-0", environment=environment)
    for number in range(20):
        append(log, make_batch(value=b"%d" % number), epoch=0)
        log.roll()
    for offset in list(range(20)) + list(range(19, -1, -1)):
        found = log.read(offset, 1000, end_offset=20)
        assert headers_in(slice_bytes(found))[0].base_offset == offset
        assert sum(segment.is_open() for segment in log.segments) <= 3
    assert environment.files.evictions > 20
    append(log, make_batch())
    assert len(read_all(log)) == 21


@pytest.mark.parametrize("content", [b"", b"\0" * 80, b"\x01" * 13, b"\x7f" * 160])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_wrong_index_of_a_sealed_segment_is_rebuilt_when_it_is_used(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory, LogConfig(index_interval_bytes=100))
    for number in range(30):
        append(log, make_batch(timestamps=(1000 + number,)), epoch=0)
    log.roll()
    log.close(clean=True)
    (directory / f"00000000000000000000{suffix}").write_bytes(content)
    log = open_log(directory, LogConfig(index_interval_bytes=100), clean=True)
    for number in range(30):
        found = log.read(number, 1, end_offset=30)
        assert headers_in(slice_bytes(found))[0].base_offset == number
        assert log.offset_for_timestamp(1000 + number) == (1000 + number, number, 0)
    assert log.max_timestamp() == (1029, 29)


def test_the_index_of_another_segment_is_found_out(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory, LogConfig(index_interval_bytes=100))
    for number in range(30):
        append(log, make_batch(value=b"x" * (number % 7)), epoch=0)
    log.roll()
    for _ in range(30):
        append(log, make_batch(value=b"y" * 50))
    log.roll()
    log.close(clean=True)
    second = directory / "00000000000000000030.index"
    (directory / "00000000000000000000.index").write_bytes(second.read_bytes())
    log = open_log(directory, LogConfig(index_interval_bytes=100), clean=True)
    for offset in (29, 3, 17, 8, 0):
        found = log.read(offset, 1, end_offset=60)
        assert headers_in(slice_bytes(found))[0].base_offset == offset


def test_timestamps_inside_compressed_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(timestamps=(10, 30, 20, 50), compression=4), epoch=0)
    append(log, make_batch(timestamps=(40, 60), compression=1), epoch=2)
    assert log.offset_for_timestamp(0) == (10, 0, 0)
    assert log.offset_for_timestamp(20) == (30, 1, 0)
    assert log.offset_for_timestamp(40) == (50, 3, 0)
    assert log.offset_for_timestamp(55) == (60, 5, 2)
    assert log.offset_for_timestamp(61) is None
    assert log.max_timestamp() == (60, 5)
    log.advance_log_start(2)
    assert log.offset_for_timestamp(0) == (20, 2, 0)


def test_batch_header_at(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(timestamps=(10, 30)), make_batch(timestamps=(5,)), epoch=3)
    header = log.batch_header_at(1)
    assert header is not None
    assert (header.base_offset, header.record_count, header.leader_epoch) == (0, 2, 3)
    assert log.batch_header_at(3) is None


# ---- start, flush, close ----


def test_a_clean_stop_needs_no_scan_and_an_unclean_one_begins_at_the_recovery_point(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for _ in range(3):
        append(log, make_batch(), epoch=0)
        log.roll()
    append(log, make_batch())
    log.close(clean=True)
    log = open_log(directory, clean=True)
    assert (log.recovered_segments, log.recovery_point, log.log_end_offset) == (0, 4, 4)
    log.close(clean=False)
    assert open_log(directory, recovery_point=3).recovered_segments == 1
    assert open_log(directory, recovery_point=2).recovered_segments == 2
    assert open_log(directory, recovery_point=0).recovered_segments == 4


def test_a_torn_tail_after_a_stop_that_says_it_was_clean(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    append(log, make_batch(), make_batch(), epoch=0)
    log.close(clean=True)
    with Path(log.active_segment.file).open("r+b") as file:
        file.truncate(log.size_bytes - 1)
    log = open_log(directory, clean=True)
    assert log.log_end_offset == 1
    assert log.recovered_segments == 1


def test_flush_messages_and_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(flush_messages=3))
    assert log.flush_at_offset == 3
    append(log, make_batch(timestamps=(1, 2, 3)), epoch=0)
    job = log.begin_flush()
    assert job is not None
    append(log, make_batch())
    job.run()
    log.complete_flush(job)
    assert (log.recovery_point, log.flush_at_offset) == (3, 6)
    assert log.begin_flush(3) is None
    log.flush()
    assert log.recovery_point == 4


def test_a_flush_that_was_overtaken_by_a_truncation_proves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    job = log.begin_flush()
    assert job is not None
    log.truncate_to(1)
    append(log, make_batch(), make_batch())
    job.run()
    log.complete_flush(job)
    assert log.recovery_point == 0


def test_a_failed_sync_is_a_failed_directory(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    filesystem.fdatasync = fail
    with pytest.raises(LogDirFailure):
        log.flush()
    assert log.recovery_point == 0


def test_old_message_formats_are_refused_and_not_cut_off(tmp_path: Path) -> None:
    body = struct.pack(">BBq", 1, 0, 5) + struct.pack(">i", -1) + struct.pack(">i", 2) + b"hi"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body + b"\0" * 80
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(message)
    with pytest.raises(UnsupportedFormatError):
        open_log(directory)
    assert (directory / "00000000000000000000.log").read_bytes() == message


def test_leftovers_of_deletion_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000007.index",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        (directory / name).write_bytes(b"x")
    open_log(directory)
    assert {path.name for path in directory.iterdir()} == {"00000000000000000000.log"}


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogDirFailure):
        open_log(tmp_path / "file" / "topic-0")


# ---- deletion ----


def test_delete_renames_and_then_removes(tmp_path: Path) -> None:
    class Later(InlineEnvironment):
        removed: ClassVar[list[tuple[str, int]]] = []

        def delete_later(self, paths: list[str], delay_ms: int) -> None:
            self.removed += [(path, delay_ms) for path in paths]

    environment = Later()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.delete("0123456789abcdef0123456789abcdef")
    target = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    assert target.is_dir()
    assert not (tmp_path / "topic-0").exists()
    assert environment.removed == [(str(target), 60_000)]


@pytest.mark.parametrize(
    ("config", "left"),
    [
        (LogConfig(retention_ms=1000), [4]),
        (LogConfig(retention_ms=-1), [0, 1, 2, 3, 4]),
        (LogConfig(retention_ms=-1, retention_bytes=150), [2, 3, 4]),
        (LogConfig(retention_ms=-1, retention_bytes=0), [5]),
        (LogConfig(retention_ms=1), [5]),
        (LogConfig(retention_ms=1, delete_policy=False), [0, 1, 2, 3, 4]),
    ],
)
def test_retention_by_time_and_size(tmp_path: Path, config: LogConfig, left: list[int]) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", config, clock=clock)
    for number in range(5):
        append(log, make_batch(timestamps=(8000 + 333 * number,)), epoch=0)
        if number < 4:
            log.roll()
    assert log.active_segment.size < 75
    log.high_watermark = 5
    log.apply_retention()
    assert [segment.base_offset for segment in log.segments] == left
    assert log.log_start_offset == left[0]
    assert log.apply_retention() == 0


def test_retention_never_takes_what_is_not_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1), clock=ManualClock(10**6))
    for _ in range(4):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.high_watermark = 2
    assert log.apply_retention() == 2
    assert log.log_start_offset == 2


def test_retention_counts_from_the_largest_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(retention_ms=1000), clock=ManualClock(10_000))
    append(log, make_batch(timestamps=(9500,)), make_batch(timestamps=(1,)), epoch=0)
    log.roll()
    append(log, make_batch(timestamps=(9900,)))
    log.high_watermark = 3
    assert log.apply_retention() == 0


def test_reconfigure_holds_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    log.reconfigure(LogConfig(segment_bytes=log.size_bytes, flush_messages=1))
    assert log.flush_at_offset == 1
    append(log, make_batch())
    assert len(log.segments) == 2


def test_expired_producers_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(10_000)
    log = open_log(tmp_path / "topic-0", LogConfig(producer_id_expiration_ms=100), clock=clock)
    batch = make_batch(producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(10_000,))
    append(log, batch, epoch=0)
    assert log.expire_producers() == 0
    clock.now_ms += 100
    assert log.expire_producers() == 1


def test_every_interrupted_prefix_of_a_truncation_recovers(tmp_path: Path) -> None:
    """Truncation touches many files; a crash after any step leaves a log that opens."""
    source = tmp_path / "source"
    log = open_log(source, LogConfig(segment_bytes=300, index_interval_bytes=50))
    for number in range(20):
        append(log, make_batch(timestamps=(number,)), epoch=number // 6)
    log.close(clean=True)
    steps = 0
    while True:
        directory = tmp_path / f"topic-{steps}"
        shutil.copytree(source, directory)
        filesystem = FileSystem()
        counter = [steps]
        for name in ("rename", "ftruncate", "unlink", "pwritev"):
            setattr(filesystem, name, _dies_after(counter, getattr(filesystem, name)))
        log = PartitionLog.open(
            directory,
            topic="topic",
            partition=0,
            config=LogConfig(segment_bytes=300, index_interval_bytes=50),
            clock=ManualClock(),
            environment=InlineEnvironment(filesystem),
            clean=True,
        )
        try:
            log.truncate_to(7)
        except LogDirFailure:
            finished = False
        else:
            finished = True
        again = open_log(directory, LogConfig(segment_bytes=300, index_interval_bytes=50))
        headers = read_all(again)
        assert [h.base_offset for h in headers] == list(range(len(headers)))
        assert len(headers) == 7 if finished else 7 <= len(headers) <= 20
        if finished:
            break
        steps += 1
    assert steps > 5


def _dies_after(counter: list[int], function: object) -> object:
    def dying(*args: object) -> object:
        if counter[0] <= 0:
            raise OSError(errno.EIO, "dead")
        counter[0] -= 1
        return function(*args)

    return dying


# ---- a disk that hangs ----


def test_a_slow_write_marks_the_directory_and_fast_ones_clear_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 0.051])
    monkeypatch.setattr(log_writer, "monotonic", lambda: next(times))
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    assert not log.stalled
    append(log, make_batch())
    assert log.stalled
    monkeypatch.setattr(log_writer, "monotonic", lambda: 0.0)
    for number in range(FAST_WRITES_TO_RECOVER):
        assert log.stalled
        append_later(log, make_batch(timestamps=(number,)))
    assert not log.stalled
    assert len(read_all(log)) == 2 + FAST_WRITES_TO_RECOVER
    assert log.max_timestamp() == (1000, 0)


def append_later(log: PartitionLog, batch: bytearray) -> list[int]:
    offset = log.log_end_offset
    set_base_offset_and_epoch(batch, 0, offset, log.epochs.latest)
    timestamp = read_header(batch).max_timestamp
    done: list[int] = []
    log.append_later(
        [batch], len(batch), [offset], [len(batch)], offset + 1, timestamp, offset,
        log.epochs.latest, lambda: done.append(offset),
    )  # fmt: skip
    return done


class Threads(InlineEnvironment):
    """Writes wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((work, done))

    def finish(self) -> None:
        work, done = self.jobs.pop(0)
        work()
        done()


def test_a_later_append_counts_when_it_is_written(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    done = append_later(log, make_batch(timestamps=(2000,)))
    assert (log.writing, log.log_end_offset, done) == (True, 1, [])
    assert len(read_all(log)) == 1
    with pytest.raises(AssertionError):
        append_later(log, make_batch())
    environment.finish()
    assert (log.writing, log.log_end_offset, done) == (False, 2, [1])
    assert log.max_timestamp() == (2000, 1)
    append(log, make_batch())
    assert len(read_all(log)) == 3


def test_a_log_that_is_deleted_while_it_is_written(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    done = append_later(log, make_batch())
    segment = log.active_segment
    log.delete("0" * 32)
    environment.finish()
    assert done == []
    assert segment.fd < 0


def test_a_later_append_that_must_roll_is_done_at_once(tmp_path: Path) -> None:
    environment = Threads()
    size = len(make_batch())
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=size), environment=environment)
    append(log, make_batch(), epoch=0)
    assert append_later(log, make_batch()) == [1]
    assert len(log.segments) == 2


def test_a_failed_later_append_is_a_failed_directory(tmp_path: Path) -> None:
    environment = Threads()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log._pwritev = fail
    append_later(log, make_batch())
    with pytest.raises(LogDirFailure):
        environment.finish()
    assert log.log_end_offset == 1
