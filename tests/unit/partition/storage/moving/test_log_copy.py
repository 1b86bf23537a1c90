"""A copy that follows a log which changes while it is copied; see also test_log_move."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from highwater.partition.storage.directory.move_mark import NO_MARK, read_mark
from highwater.partition.storage.errors import MoveGivenUpError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.moving import log_copy
from highwater.partition.storage.moving.log_copy import CopyOutdatedError, LogCopy, room_on
from tests.support.log_batches import append, make_batch, open_log, read_all
from tests.support.moving_node import NOW_MS, fill

TOKEN = "cd" * 16
TOPIC_ID = bytes([7]) * 16


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "PIECE_BYTES", 300)


class Copied:
    """A log, and its copy in another directory."""

    def __init__(self, directory: Path, *, room: int = 1 << 40) -> None:
        (directory / "a").mkdir()
        (directory / "b").mkdir()
        self.log = open_log(directory / "a" / "topic-0")
        self.target = FileSystem()
        self.path = directory / "b" / f"topic-0.{TOKEN}-future"
        self.room = room
        self.copy = LogCopy(FileSystem(), self.target, str(self.path), room=lambda _: self.room)

    def begin(self) -> None:
        self.copy.begin(self.log.relocation.view())

    def steps(self) -> int:
        view, count = self.log.relocation.view(), 0
        while self.copy.step(view):
            count += 1
        return count

    def finish(self) -> None:
        hold = self.log.relocation.hold()
        assert hold is not None
        try:
            self.copy.finish(
                self.log.relocation.view(producers=True),
                token=TOKEN,
                topic_id=TOPIC_ID,  # type: ignore[arg-type]
                config=self.log.config,
                now_ms=1_700_000_000_000,
            )
        finally:
            self.log.relocation.release(hold)

    def is_whole(self) -> None:
        """The copy, opened as after an orderly stop, is the log."""
        copied = open_log(
            self.path,
            clean=True,
            recovery_point=self.log.log_end_offset,
            log_start_offset=self.log.log_start_offset,
        )
        assert not copied.damaged
        assert copied.recovered_segments == 0
        assert same(copied) == same(self.log)
        copied.close(clean=False)


def same(log: PartitionLog) -> tuple[object, ...]:
    """What has to be equal in two logs."""
    names = [Path(segment.file).name for segment in log.extent.all]
    producers = sorted(map(repr, log.producers.states.entries()))
    extent = log.log_start_offset, log.log_end_offset, log.extent.size_bytes
    return names, extent, read_all(log), log.epochs.cache.entries(), producers


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def test_a_log_is_copied_in_pieces(copied: Copied) -> None:
    fill(copied.log, 30, roll_every=10)
    copied.begin()
    pieces = copied.steps()
    assert pieces >= copied.log.extent.size_bytes // 300
    assert copied.copy.copied_bytes == copied.log.extent.size_bytes
    assert copied.copy.offset == copied.log.log_end_offset
    assert read_mark(copied.target, str(copied.path)) == NO_MARK
    copied.finish()
    assert read_mark(copied.target, str(copied.path)).token == TOKEN
    copied.is_whole()
    assert (copied.path / "partition.metadata").read_text().startswith("version: 0\ntopic_id: ")


def test_an_empty_log_is_copied(copied: Copied) -> None:
    copied.begin()
    assert copied.steps() == 0
    copied.finish()
    copied.is_whole()


def test_what_is_appended_and_rolled_is_copied_once(copied: Copied) -> None:
    fill(copied.log, 10, roll_every=5)
    copied.begin()
    copied.steps()
    before = copied.copy.copied_bytes
    fill(copied.log, 7, roll_every=4)
    copied.steps()
    assert copied.copy.copied_bytes == copied.log.extent.size_bytes > before
    copied.finish()
    copied.is_whole()


@pytest.mark.parametrize("end", [0, 3, 10, 17, 20, 31, 39])
def test_what_is_truncated_and_written_again_is_copied_again(copied: Copied, end: int) -> None:
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    copied.steps()
    copied.log.truncate_to(end)
    while copied.log.log_end_offset < 38:
        fill(copied.log, 1, value=b"OTHER VALUE")
    copied.steps()
    copied.finish()
    copied.is_whole()


def test_a_log_that_was_emptied_is_copied_anew(copied: Copied) -> None:
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    copied.steps()
    copied.log.truncate_fully_and_start_at(100)
    fill(copied.log, 3)
    copied.steps()
    copied.finish()
    copied.is_whole()
    assert len(list(copied.path.glob("*.log"))) == 1


def test_what_is_deleted_goes_from_the_copy(copied: Copied) -> None:
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    view = copied.log.relocation.view()
    copied.copy.step(view)
    copied.log.advance_start(15)

    def copy_all() -> None:
        while copied.copy.step(view):
            continue

    with pytest.raises(CopyOutdatedError):
        copy_all()
    copied.steps()
    copied.finish()
    copied.is_whole()
    assert copied.copy.copied_bytes == copied.log.extent.size_bytes


def test_a_segment_that_was_replaced_is_copied_again(copied: Copied) -> None:
    """As a compaction or a repair does: another file has the name."""
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    copied.steps()
    first = Path(copied.log.extent.all[0].file)
    whole = first.read_bytes()
    first.unlink()
    first.write_bytes(b"another")
    with pytest.raises(CopyOutdatedError):
        copied.finish()
    first.unlink()
    first.write_bytes(whole)
    copied.steps()
    copied.finish()
    copied.is_whole()


def test_an_index_that_was_rebuilt_is_copied_again(copied: Copied) -> None:
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    copied.steps()
    index = Path(copied.log.extent.all[0].time_index.file.path)
    index.write_bytes(index.read_bytes() + bytes(12))
    with pytest.raises(CopyOutdatedError):
        copied.finish()


def test_a_copy_that_lacks_records_is_given_up(copied: Copied) -> None:
    fill(copied.log, 20, roll_every=5)
    copied.begin()
    copied.steps()
    second = copied.path / Path(copied.log.extent.all[1].file).name
    second.write_bytes(second.read_bytes()[:-10])
    with pytest.raises(MoveGivenUpError):
        copied.finish()
    assert read_mark(copied.target, str(copied.path)) == NO_MARK


def test_what_an_earlier_process_has_left_is_removed_first(copied: Copied) -> None:
    copied.path.mkdir()
    (copied.path / "00000000000000000777.log").write_bytes(b"old")
    (copied.path / ".highwater_moved").write_text('{"version": 1, "token": "x", "generation": 9}')
    fill(copied.log, 3)
    copied.begin()
    assert list(copied.path.iterdir()) == []
    copied.steps()
    copied.finish()
    copied.is_whole()


def test_a_volume_without_room_is_left_alone(tmp_path: Path) -> None:
    full = Copied(tmp_path, room=100)
    fill(full.log, 3)
    with pytest.raises(MoveGivenUpError, match="no room"):
        full.begin()
    assert not full.path.exists()


def test_a_volume_that_fills_up_is_noticed_in_time(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "SYNC_EVERY_BYTES", 600)
    fill(copied.log, 20)
    copied.begin()
    copied.copy.step(copied.log.relocation.view())
    copied.room = 0
    with pytest.raises(MoveGivenUpError, match="nearly full"):
        copied.steps()


def test_failing_writes_are_the_callers_to_handle(copied: Copied) -> None:
    fill(copied.log, 3)
    copied.begin()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    copied.target.pwritev = full
    with pytest.raises(OSError, match="No space"):
        copied.steps()


def test_some_room_is_kept_free(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert room_on(str(tmp_path)) < found.f_bavail * found.f_frsize


def test_gaps_and_a_batch_of_another_producer(copied: Copied) -> None:
    copied.log.cleaning.mark_gaps()
    append(
        copied.log,
        make_batch(timestamps=(NOW_MS,), producer_id=9, producer_epoch=1, base_sequence=0),
        epoch=0,
    )
    copied.begin()
    copied.steps()
    copied.finish()
    copied.is_whole()
    assert (copied.path / ".highwater_gaps").exists()
