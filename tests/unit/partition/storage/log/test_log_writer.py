"""Appending to a log: groups, failed and short writes, rolls, a disk that hangs."""

import errno
import os
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    LogDirFailure,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import (
    append,
    headers_in,
    make_batch,
    open_log,
    read_all,
    slice_bytes,
    write_with,
)


def test_a_group_is_one_write_whatever_its_number_of_buffers(tmp_path: Path) -> None:
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


def test_more_buffers_than_fit_into_one_writev(tmp_path: Path) -> None:
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
    size, end = log.extent.size_bytes, log.log_end_offset

    def full(fd: int, buffers: list[bytes], position: int) -> int:
        write(fd, [b"".join(buffers)[:11]], position)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    filesystem.pwritev = full
    write_with(log, full)
    with pytest.raises(LogDirFailure) as failed:
        append(log, make_batch(), make_batch())
    assert failed.value.cause.errno == errno.ENOSPC
    assert log.log_end_offset == end
    assert Path(log.extent.active.file).stat().st_size == size


def test_recovery_removes_a_failed_write_that_could_not_be_removed(tmp_path: Path) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    append(log, make_batch(), epoch=0)
    size = log.extent.size_bytes

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def torn(fd: int, buffers: list[bytes], position: int) -> int:
        os.pwrite(fd, b"".join(buffers)[:30], position)
        return fail()

    filesystem.ftruncate = fail
    write_with(log, torn)
    with pytest.raises(LogDirFailure) as failed:
        append(log, make_batch())
    assert "cut off" in failed.value.__notes__[0]
    assert Path(log.extent.active.file).stat().st_size == size + 30
    log = open_log(tmp_path / "topic-0")
    assert log.truncated_bytes == 30
    assert log.log_end_offset == 1


def test_a_batch_that_does_not_fit_rolls_even_inside_a_group(tmp_path: Path) -> None:
    size = len(make_batch(value=b"x" * 40))
    log = open_log(tmp_path / "topic-0", LogConfig(segment_bytes=3 * size + 1))
    append(log, *[make_batch(value=b"x" * 40, timestamps=(n,)) for n in range(10)], epoch=0)
    assert [segment.base_offset for segment in log.extent.all] == [0, 3, 6, 9]
    assert [segment.max_timestamp for segment in log.extent.all] == [2, 5, 8, 9]
    assert [segment.max_timestamp_offset for segment in log.extent.all] == [2, 5, 8, 9]
    append(log, make_batch(value=b"x" * 40))
    assert len(log.extent.all) == 4
    names = sorted(path.name for path in (tmp_path / "topic-0").glob("*.log"))
    assert names[1] == "00000000000000000003.log"


@pytest.mark.parametrize("batch", [0, 3])
def test_an_append_behind_damage_begins_a_new_segment(tmp_path: Path, batch: int) -> None:
    """Such an append once failed the leader's log, and with it the partition."""
    log = open_log(tmp_path / "topic-0")
    for number in range(4):
        append(log, make_batch(timestamps=(1000 + number,)), epoch=0)
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", clean=True, recovery_point=4)
    with Path(log.extent.active.file).open("r+b") as file:
        file.seek(batch * log.extent.active.size // 4 + 16)
        file.write(b"\xff")
    assert append(log, make_batch(), make_batch(), epoch=0) == [4, 5]
    assert [segment.base_offset for segment in log.extent.all] == [0, 4]
    assert log.lost.ranges == ((batch, 4),)
    found = log.reader.read(4, 1 << 20, end_offset=6)
    assert [header.base_offset for header in headers_in(slice_bytes(found))] == [4, 5]
    log.close(clean=True)
