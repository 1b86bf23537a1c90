"""A log made under the name of another one is not opened with the other one's checkpoints."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.partition.storage.directory.log_directory import DirectoryOffsets, Partition
from highwater.partition.storage.directory.made_anew import MadeAnew
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import MADE_ANEW
from tests.support.log_batches import append, make_batch
from tests.unit.partition.storage.directory.test_log_manager import Node, topic

A, B = ("a", 0), ("b", 0)


def offsets_of(
    recovery_points: dict[Partition, int],
    high_watermarks: dict[Partition, int],
    log_starts: dict[Partition, int],
) -> DirectoryOffsets:
    return DirectoryOffsets(
        recovery_points=recovery_points, high_watermarks=high_watermarks, log_starts=log_starts
    )


class World:
    """Directories of partitions, and what the checkpoints tell at the start."""

    def __init__(self, directory: Path, *told: Partition) -> None:
        self.directory = directory
        for name, number in (A, B):
            (directory / f"{name}-{number}").mkdir()
        self.marks = MadeAnew(FileSystem(), lambda each: str(directory / f"{each[0]}-{each[1]}"))
        told_of = dict.fromkeys(told, 7)
        self.marks.without_others([], offsets_of(told_of, told_of, {}))

    def marked(self, partition: Partition) -> bool:
        return (self.directory / f"{partition[0]}-{partition[1]}" / MADE_ANEW).exists()


def test_only_a_name_that_the_checkpoints_know_is_marked(tmp_path: Path) -> None:
    world = World(tmp_path, A)
    assert world.marks.created(B) is None
    remove = world.marks.created(A)
    assert remove is not None
    assert (world.marked(A), world.marked(B)) == (True, False)
    assert world.marks.marked == (A,)
    remove()
    assert not world.marked(A)
    assert world.marks.marked == ()


def test_a_name_may_be_known_until_a_write_without_it_has_ended(tmp_path: Path) -> None:
    marks = World(tmp_path).marks
    assert marks.created(A) is None
    marks.begins({A: 1})
    assert marks.created(A) is not None, "it may be on the disk already"
    marks.begins({B: 1}, whole=False)
    marks.ended()
    marks.begins({})
    marks.ended()
    assert marks.created(A) is not None, "high watermarks are one file of three"
    marks.ended()
    assert marks.created(A) is None
    assert marks.created(B) is None


def test_a_mark_is_not_removed_for_the_sake_of_an_earlier_log(tmp_path: Path) -> None:
    world = World(tmp_path, A)
    earlier, later = world.marks.created(A), world.marks.created(A)
    assert earlier is not None
    assert later is not None
    earlier()
    assert world.marked(A)
    shutil.rmtree(tmp_path / "a-0")
    later()
    assert world.marks.marked == ()


def test_marks_that_a_start_finds(tmp_path: Path) -> None:
    world = World(tmp_path, A)
    world.marks.created(A)
    offsets = dict.fromkeys((A, B), 7)
    again = MadeAnew(FileSystem(), lambda each: str(tmp_path / f"{each[0]}-{each[1]}"))
    assert again.without_others((A, B), offsets_of(offsets, offsets, offsets)) == (
        offsets_of({B: 7}, {B: 7}, {B: 7})
    )
    assert again.marked == (A,)
    assert again.created(B) is not None
    again.remove_all()
    assert not world.marked(A)
    assert not world.marked(B)


def test_a_disk_that_fails(tmp_path: Path) -> None:
    world = World(tmp_path, A)
    shutil.rmtree(tmp_path / "a-0")
    with pytest.raises(LogDirFailure):
        world.marks.created(A)


def killed_copy(directory: Path, to: Path) -> Node:
    """What a start finds if the process is killed now."""
    shutil.copytree(directory, to)
    (to / ".lock").unlink(missing_ok=True)
    return Node(to)


def with_former(directory: Path, prepare: Callable[[PartitionLog], None]) -> Node:
    """A node whose checkpoints tell of a log of 20 records."""
    node = Node(directory)
    log, _ = node.manager.open_log(topic(), 0)
    append(log, *(make_batch() for _ in range(20)), epoch=0)
    prepare(log)
    node.manager.checkpoint()
    node.drain()
    return node


def log_start_at_the_end(log: PartitionLog) -> None:
    log.stored_high_watermark = 20
    log.advance_start(20)


def high_watermark_of_20(log: PartitionLog) -> None:
    log.stored_high_watermark = 20


@pytest.mark.parametrize("prepare", [log_start_at_the_end, high_watermark_of_20])
def test_a_topic_made_again_while_the_disk_is_slow_and_then_kill_9(
    tmp_path: Path, prepare: Callable[[PartitionLog], None]
) -> None:
    """Appends go to the page cache meanwhile, and are acknowledged."""
    node = with_former(tmp_path / "a", prepare)
    go_on = threading.Event()
    node.manager.dirs[0].run_later(lambda: bool(go_on.wait(20)) and None, lambda: None)
    node.manager.delete_log(node.manager.open_log(topic(), 0)[0])
    log, _ = node.manager.open_log(topic(number=2), 0)
    append(log, *(make_batch() for _ in range(25)), epoch=0)
    killed = killed_copy(tmp_path / "a", tmp_path / "killed")
    found, _ = killed.manager.open_log(topic(number=2), 0)
    assert (found.log_start_offset, found.log_end_offset) == (0, 25)
    assert found.stored_high_watermark == 0
    killed.drain(lambda: not (tmp_path / "killed" / "orders-0" / MADE_ANEW).exists())
    killed.manager.close()
    go_on.set()
    node.drain(lambda: not (tmp_path / "a" / "orders-0" / MADE_ANEW).exists())
    node.manager.close()


def test_a_clean_stop_leaves_no_mark(tmp_path: Path) -> None:
    node = with_former(tmp_path / "a", log_start_at_the_end)
    node.manager.delete_log(node.manager.open_log(topic(), 0)[0])
    log, _ = node.manager.open_log(topic(number=2), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    log.stored_high_watermark = 2
    log.advance_start(1)
    assert node.manager.close() == []
    assert not (tmp_path / "a" / "orders-0" / MADE_ANEW).exists()
    again = Node(tmp_path / "a")
    found, _ = again.manager.open_log(topic(number=2), 0)
    assert (found.log_start_offset, found.log_end_offset) == (1, 2)
    again.manager.close()
