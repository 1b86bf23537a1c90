import os
import threading
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.storage import checkpoint
from highwater.partition.storage.directory import deletion
from highwater.partition.storage.directory.log_directory import DirectoryOffsets
from highwater.partition.storage.directory.worker import WAITING_MAX
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.stall import HUNG_WRITE_MS
from highwater.partition.storage.names import HIGH_WATERMARK_CHECKPOINT
from tests.support.log_batches import append, make_batch
from tests.unit.partition.storage.directory.test_log_manager import Node, topic


def killed(node: Node) -> None:
    """Closes descriptors as the kernel does for a killed process."""
    for hosted in node.manager.dirs:
        hosted.directory.close()


def killed_later(node: Node) -> None:
    """Runs the posted callbacks and jobs, then kills the node."""
    for _ in range(2):
        node.drain()
    killed(node)


def cut_log(node: Node) -> PartitionLog:
    """A log that begins inside its first segment and was cleaned, with such checkpoints."""
    log, _ = node.manager.open_log(topic(number=1), 0)
    append(log, *[make_batch() for _ in range(8)], epoch=0)
    log.durability.flush()
    log.stored_high_watermark = log.cleaning.first_dirty = 8
    log.deletion.advance_start(5)
    node.run(node.maintenance().checkpoints())
    return log


def test_a_recreated_topic_does_not_get_the_old_ones_checkpoints(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    node.manager.delete_log(cut_log(node))
    log, _ = node.manager.open_log(topic(number=2), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    killed_later(node)

    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=2), 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    assert (log.stored_high_watermark, log.durability.recovery_point, log.cleaning.first_dirty) == (
        0,
        0,
        0,
    )
    node.manager.close()


def test_a_log_start_that_was_kept_outlives_a_crash(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    append(log, *[make_batch() for _ in range(8)], epoch=0)
    kept: list[int] = []
    for offset in (3, 5):  # One write serves both.
        log.advance_start(offset)
        log.keep_start(lambda: kept.append(log.log_start_offset))
    assert kept == []
    killed_later(node)
    assert kept == [5, 5]

    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    assert (log.log_start_offset, log.log_end_offset) == (5, 8)
    node.manager.close()


def test_a_log_start_where_a_segment_begins_is_kept_too(tmp_path: Path) -> None:
    """A power cut may bring back the removed segment, whose renaming was not synced."""
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), epoch=0)
    log.durability.flush()
    log.advance_start(1)
    log.keep_start(lambda: None)
    killed_later(node)
    for path in Path(log.directory).glob("*.deleted"):
        path.rename(path.with_suffix(""))

    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
    node.manager.close()


def test_setting_aside_a_former_topics_log_removes_its_checkpoints(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    cut_log(node)
    killed(node)
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=2), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    killed_later(node)

    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=2), 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 2)
    node.manager.close()


@pytest.mark.parametrize("end", [6, 3])
def test_checkpoints_do_not_outlive_a_truncation(tmp_path: Path, end: int) -> None:
    node = Node(tmp_path / "a")
    log = cut_log(node)
    if end < log.log_start_offset:
        log.truncate_fully_and_start_at(end)
    else:
        log.truncate_to(end)
    log.stored_high_watermark = end
    append(log, make_batch(), make_batch(), make_batch(), epoch=1)
    killed_later(node)

    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    assert (log.log_start_offset, log.log_end_offset) == (min(end, 5), end + 3)
    assert (log.stored_high_watermark, log.durability.recovery_point, log.cleaning.first_dirty) == (
        end,
        end,
        end,
    )
    node.manager.close()


def test_checkpoints_are_replaced_once_for_many_logs(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    logs = [node.manager.open_log(topic(), partition)[0] for partition in range(20)]
    written = []
    directory = node.manager.dirs[0].directory
    write = directory.write_offsets

    def counted(offsets: DirectoryOffsets) -> None:
        written.append(len(offsets.recovery_points))
        write(offsets)

    directory.write_offsets = counted  # type: ignore[method-assign]
    for log in logs[:15]:
        node.manager.delete_log(log)
    for _ in range(2):
        node.drain()
    assert written == [5]
    node.manager.close()


def high_watermarks(directory: Path) -> dict[tuple[str, int], int]:
    return checkpoint.read_offsets(FileSystem(), str(directory / HIGH_WATERMARK_CHECKPOINT))


def test_high_watermarks_are_written_when_one_has_moved_and_without_recovery_points(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path / "a")
    logs = [node.manager.open_log(topic(), partition)[0] for partition in range(2)]
    for log in logs:
        append(log, make_batch(), make_batch(), epoch=0)
    logs[1].stored_high_watermark = 2
    disk = FileSystem()
    written: list[str] = []
    rename = disk.rename

    def counted(old: str, new: str) -> None:
        written.append(Path(new).name)
        rename(old, new)

    node.manager.dirs[0].directory.filesystem.rename = counted  # type: ignore[method-assign]
    for _ in range(3):
        node.run(node.maintenance().high_watermarks())
    assert written == [HIGH_WATERMARK_CHECKPOINT]
    assert high_watermarks(tmp_path / "a") == {("orders", 0): 0, ("orders", 1): 2}
    logs[0].stored_high_watermark = 1
    node.run(node.maintenance().high_watermarks())
    node.run(node.maintenance().checkpoints())
    count = len(written)
    node.run(node.maintenance().high_watermarks())
    assert len(written) == count, "the checkpoints of all offsets have told it, too"
    assert high_watermarks(tmp_path / "a")["orders", 0] == 1
    killed(node)

    node = Node(tmp_path / "a")
    assert [node.manager.open_log(topic(), n)[0].stored_high_watermark for n in range(2)] == [1, 2]
    node.manager.close()


def test_one_write_of_high_watermarks_at_a_time(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    [hosted] = node.manager.dirs
    go_on = threading.Event()
    hosted.run_later(lambda: bool(go_on.wait(10)) and None, lambda: None)
    begun: list[int] = []
    for offset in (1, 2):
        log.stored_high_watermark = offset
        list(node.maintenance().high_watermarks())
        begun.append(hosted.waiting_jobs)
    assert begun[1] <= begun[0]
    go_on.set()
    node.drain()
    assert high_watermarks(tmp_path / "a") == {("orders", 0): 1}
    node.run(node.maintenance().high_watermarks())
    assert high_watermarks(tmp_path / "a") == {("orders", 0): 2}
    node.manager.close()


def test_high_watermarks_do_not_outlive_a_truncation(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log = cut_log(node)
    log.stored_high_watermark = 7
    list(node.maintenance().high_watermarks())  # Not written yet when the log is truncated.
    log.truncate_to(6)
    append(log, make_batch(), make_batch(), make_batch(), epoch=1)
    killed_later(node)
    assert high_watermarks(tmp_path / "a") == {("orders", 0): 6}


def test_a_clean_stop_writes_how_far_logs_are_cleaned(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    cut_log(node).truncate_to(6)
    node.manager.close()
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    assert (log.log_end_offset, log.cleaning.first_dirty) == (6, 6)
    append(log, make_batch(), make_batch(), make_batch(), epoch=1)
    node.manager.close()
    node = Node(tmp_path / "a")
    assert node.manager.open_log(topic(number=1), 0)[0].cleaning.first_dirty == 6
    node.manager.close()


def test_more_removals_are_due_than_one_job_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when retention.ms of a topic with very many segments is reduced."""
    node = Node(tmp_path / "a")
    [hosted] = node.manager.dirs
    removed: list[str] = []
    go_on = threading.Event()

    def slow(path: str) -> None:
        go_on.wait(10)
        removed.append(path)

    monkeypatch.setattr(deletion, "remove", slow)
    paths = [f"{number}.log.deleted" for number in range(WAITING_MAX + 100)]
    hosted.delete_later(paths, 0)
    for _ in range(2):
        node.run(node.maintenance().removals())
    assert hosted.failure is None
    go_on.set()
    node.drain(lambda: removed == paths)
    assert node.failures == []
    node.manager.close()


def test_a_new_logs_directory_is_synced_before_its_records_count_as_flushed(tmp_path: Path) -> None:
    disk = FileSystem()
    node = Node(tmp_path / "a", filesystems={str(tmp_path / "a"): disk})
    log, _ = node.manager.open_log(topic(), 0)
    append(log, make_batch(), epoch=0)
    order: list[str] = []

    def fsync(fd: Any) -> None:
        order.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        os.fsync(fd)

    disk.fsync = fsync
    node.manager.flush(log, lambda: order.append("flushed"))
    node.drain(lambda: "flushed" in order)
    assert str(tmp_path / "a") in order[: order.index("flushed")]
    node.manager.close()


def test_a_node_can_write_nothing_when_all_its_directories_hang(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    go_on = threading.Event()
    begun = [threading.Event(), threading.Event()]

    def hang(index: int) -> None:
        begun[index].set()
        assert go_on.wait(10)

    assert not node.manager.hangs, "nothing was ever slow"
    first, second = node.manager.dirs
    first.write_later(lambda: hang(0), lambda: None)
    assert begun[0].wait(5)
    node.clock.now_ms += HUNG_WRITE_MS - 1
    assert not first.hangs, "slow, not dead"
    node.clock.now_ms += 1
    assert (first.hangs, second.hangs, node.manager.hangs) == (True, False, False)
    second.write_later(lambda: hang(1), lambda: None)
    assert begun[1].wait(5)
    node.clock.now_ms += HUNG_WRITE_MS
    assert node.manager.hangs
    go_on.set()
    for hosted in node.manager.dirs:
        done = threading.Event()
        hosted.write_later(lambda: None, done.set)
        while not done.is_set():
            node.posted.get(timeout=5)()
    assert not node.manager.hangs
    assert node.failures == [], "what hung is in the log, and the directories go on"
    node.manager.close()
