"""A log goes on with copies of its files; see also `moving.test_log_move`, where they are made."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.storage.errors import LogDirFailure, MoveGivenUpError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.segment.segment import Segment, SegmentFactory
from tests.support.log_batches import append, make_batch, open_log, read_all
from tests.support.moving_node import fill


class Moved:
    """A log and an equal directory to which it may move."""

    def __init__(self, directory: Path) -> None:
        for name in "ab":
            (directory / name).mkdir()
        self.source = FileSystem()
        self.log = open_log(directory / "a" / "topic-0", environment=InlineEnvironment(self.source))
        self.target = InlineEnvironment(FileSystem())
        self.copy = directory / "b" / "copy"
        self.aside = directory / "a" / "aside"
        fill(self.log, 10, roll_every=4)

    def segments(self) -> list[Segment]:
        shutil.copytree(self.log.directory, self.copy)
        factory = SegmentFactory(
            str(self.copy),
            index_bytes=1 << 20,
            filesystem=self.target.filesystem,
            files=self.target.files,
            maps=self.target.maps,
        )
        return [factory.existing(segment.base_offset) for segment in self.log.extent.all]

    def move(self) -> None:
        hold = self.log.relocation.hold()
        assert hold is not None
        segments = self.segments()
        try:
            self.log.move(str(self.copy), self.target, segments, aside=str(self.aside))
        finally:
            self.log.relocation.release(hold)


@pytest.fixture
def moved(tmp_path: Path) -> Moved:
    return Moved(tmp_path)


def test_a_log_goes_on_with_the_copies(moved: Moved, tmp_path: Path) -> None:
    log = moved.log
    headers, old = read_all(log), list(log.extent.all)
    active = log.extent.active
    known = active.max_timestamp, active.max_timestamp_offset, active.bytes_since_index
    moved.move()
    assert log.directory == str(tmp_path / "b" / "topic-0")
    assert not moved.copy.exists()
    assert moved.aside.is_dir()
    assert all(segment.deleted and segment.fd < 0 for segment in old)
    assert all(segment.file.startswith(str(moved.aside)) for segment in old)
    active = log.extent.active
    assert (active.max_timestamp, active.max_timestamp_offset, active.bytes_since_index) == known
    assert active.path == f"topic-0/{Path(active.file).name}"
    assert read_all(log) == headers
    assert log.stall is moved.target.stall
    assert log.durability.recovery_point == log.log_end_offset
    shutil.rmtree(moved.aside)
    fill(log, 10, roll_every=3)
    assert len(read_all(log)) == len(headers) + 10
    log.close(clean=True)
    again = open_log(tmp_path / "b" / "topic-0", clean=True, recovery_point=40)
    assert len(read_all(again)) == len(headers) + 10


def test_a_view_tells_of_every_segment(moved: Moved) -> None:
    log = moved.log
    view = log.relocation.view()
    assert [files.base_offset for files in view.files] == [0, 8, 16]
    assert [files.next_offset for files in view.files] == [8, 16, 20]
    assert [files.sealed for files in view.files] == [True, True, False]
    assert [files.size for files in view.files] == [s.size for s in log.extent.all]
    assert view.files[0].paths[0] == log.extent.all[0].file
    assert (view.start_offset, view.end_offset, view.packed) == (0, 20, None)
    assert log.relocation.view(producers=True).packed == log.producers.states.packed()


def test_a_hold_keeps_others_away_and_completes_the_indexes(moved: Moved) -> None:
    log = moved.log
    hold = log.relocation.hold()
    assert hold is not None
    assert log.late_writer.writing
    assert log.cleaning.running is hold
    assert log.extent.active.index.waiting == 0
    assert log.relocation.hold() is None
    log.relocation.release(hold)
    assert not log.late_writer.writing
    assert log.cleaning.running is None
    log.stall.slow_write()
    assert log.relocation.hold() is None


@pytest.mark.parametrize(
    "change",
    ["start", "epoch", "damage", "cleaning", "gaps", "deleted", "segment"],
)
def test_a_log_that_has_changed_is_noticed(moved: Moved, change: str) -> None:
    log = moved.log
    hold = log.relocation.hold()
    assert hold is not None
    view = log.relocation.view()
    assert log.relocation.is_as(view, hold)
    match change:
        case "start":
            log.advance_start(2)
        case "epoch":
            log.epochs.begin(9)
        case "damage":
            log.lost.add(1, 2)
        case "cleaning":
            log.cleaning.stop()
        case "gaps":
            log.cleaning.mark_gaps()
        case "deleted":
            log.closing.delete("0" * 32)
        case "segment":
            first = log.extent.all[0]
            log.extent.replace([first], moved.segments()[0])
    assert not log.relocation.is_as(view, hold)
    log.relocation.release(hold)


def test_new_records_and_truncations_are_noticed(moved: Moved) -> None:
    log = moved.log
    view = log.relocation.view()
    append(log, make_batch())
    hold = log.relocation.hold()
    assert hold is not None
    assert not log.relocation.is_as(view, hold)
    log.relocation.release(hold)
    log.truncate_to(view.end_offset)
    hold = log.relocation.hold()
    assert hold is not None
    assert not log.relocation.is_as(view, hold)


def failing(filesystem: FileSystem, *targets: str) -> None:
    rename = filesystem.rename

    def fail(old: str, new: str, **places: Any) -> None:
        if any(target in new for target in targets):
            raise OSError(errno.EIO, "rename")
        rename(old, new, **places)

    filesystem.rename = fail


def usable(log: PartitionLog, count: int) -> None:
    assert len(read_all(log)) == count
    append(log, make_batch())
    assert len(read_all(log)) == count + 1


def test_a_copy_that_cannot_be_renamed_leaves_the_log_as_it_was(
    moved: Moved, tmp_path: Path
) -> None:
    failing(moved.target.filesystem, "topic-0")
    with pytest.raises(MoveGivenUpError):
        moved.move()
    assert moved.log.directory == str(tmp_path / "a" / "topic-0")
    assert not moved.aside.exists()
    usable(moved.log, 10)


def test_a_log_that_cannot_be_set_aside_has_failed(moved: Moved) -> None:
    failing(moved.source, "aside")
    with pytest.raises(LogDirFailure):
        moved.move()
    assert moved.copy.is_dir()


def test_a_log_that_cannot_come_back_has_failed(moved: Moved) -> None:
    failing(moved.target.filesystem, "topic-0")
    failing(moved.source, "topic-0")
    with pytest.raises(LogDirFailure):
        moved.move()
    assert moved.aside.is_dir()
