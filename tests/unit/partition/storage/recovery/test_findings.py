"""Every start of a damaged log, through the log directory; what to expect comes from what was written.

One partition of three segments with four batches of a record each, as written or compacted. Its
node is killed, stops in order, or loses power; then one segment is missing, empty, cut at a batch, or
cut inside of one. The log has to end before the first batch that is missing, and the node must not
claim to have it. What compaction left out of a segment is not missing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.node_lineage import NodeLineage
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import (
    GAPS_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    STRAY_DIRECTORY_SUFFIX,
)
from tests.support.log_batches import (
    ManualClock,
    append,
    append_info,
    make_batch,
    open_log,
    read_all,
)

TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)
BATCH = make_batch(value=b"x" * 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The offsets of the batches in each segment, and where segments begin: where the log ended."""

    segments: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]
    compacted: bool

    @property
    def offsets(self) -> list[int]:
        return list(itertools.chain(*self.segments))

    @property
    def end(self) -> int:
        return self.segments[-1][-1] + 1


LAYOUTS = {
    "plain": Layout(
        segments=((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)), bases=(0, 4, 8), compacted=False
    ),
    # Gaps between batches, and before a segment's first batch.
    "compacted": Layout(
        segments=((0, 2, 3, 6), (9, 10, 30, 31), (32, 40, 41, 50)), bases=(0, 7, 32), compacted=True
    ),
}
POINTS = ("0", "1", "last segment", "present", "absent", "garbled")
"""Recovery points; "present" is the one of an orderly stop."""
PLACES = (
    *itertools.product(("plain",), (0, 1, 2), ("all", "two segments")),
    *itertools.product(("compacted",), (0, 1, 2), ("all",)),
    ("compacted", 2, "two segments"),
)
"""Layouts, numbers of damaged segments, and what is committed, which matters for the last segment."""


class Node:
    """One incarnation of a node with one log directory."""

    ids = itertools.count(1)

    def __init__(self, directory: Path, name: str, *, boot_id: str = "boot") -> None:
        self.lineage = NodeLineage(
            incarnation=name, boot_id=boot_id, new_id=lambda: f"id{next(self.ids)}"
        )
        self.manager = LogManager(
            [directory],
            clock=ManualClock(),
            post=lambda callback: callback(),
            on_dir_failure=lambda index, failure: pytest.fail(f"{index}: {failure}"),
            make_filesystem=lambda _: without_syncs(),
            lineage=self.lineage,
        )
        self.manager.open()
        self.manager.start()
        self.evidence = self.lineage.evidence
        self.log: PartitionLog = self.manager.open_log(TOPIC, 0)[0]

    def kill(self) -> None:
        for hosted in self.manager.dirs:
            worker, hosted._worker = hosted._worker, None
            assert worker is not None
            worker.stop(timeout_s=5)
            hosted.directory.close()


def without_syncs() -> FileSystem:
    """No test here depends on syncs, which would take most of the time."""
    filesystem = FileSystem()
    filesystem.fsync = filesystem.fdatasync = lambda _fd: None
    return filesystem


def checkpoint(path: Path, offset: int | str) -> None:
    """An offset checkpoint with one partition; text as it is; none for no file."""
    if isinstance(offset, int):
        path.write_text(f"0\n1\norders 0 {offset}\n")
    elif offset:
        path.write_text(offset)
    else:
        path.unlink(missing_ok=True)


def recovery_point_of(layout: Layout, name: str) -> int | str:
    """The offset, or the checkpoint's text."""
    known: dict[str, int | str] = {
        "last segment": layout.bases[-1],
        "present": layout.end,
        "absent": "",
        "garbled": "0\n7\nx",
    }
    return known[name] if name in known else int(name)


def write(directory: Path, layout: Layout, stop: str) -> Path:
    """Writes a log of twelve batches and ends its node; returns the partition's directory."""
    node = Node(directory, "one")
    if layout.compacted:
        node.log.cleaning.mark_gaps()
    for number, offsets in enumerate(layout.segments):
        if number:
            node.log.roll()
        append_at(node.log, *offsets, epoch=3)
    assert tuple(segment.base_offset for segment in node.log.extent.all) == layout.bases
    node.log.stored_high_watermark = layout.end
    node.manager.registered()
    if stop == "clean":
        node.manager.close(node_epoch=1)
    else:
        node.kill()
    return directory / "orders-0"


def damage(partition: Path, layout: Layout, number: int, how: str) -> int:
    """Damages a segment; returns how many batches precede the first lost one."""
    file = partition / f"{layout.bases[number]:020d}.log"
    if how == "missing":
        file.unlink()
    else:
        kept = {"empty": 0, "cut at a batch": 2 * len(BATCH), "cut inside one": 2 * len(BATCH) + 70}
        with file.open("r+b") as handle:
            handle.truncate(kept[how])
    return 4 * number + (2 if how.startswith("cut") else 0)


@pytest.mark.parametrize("stop", ["killed", "clean", "power cut"])
@pytest.mark.parametrize("recovery_point", POINTS)
@pytest.mark.parametrize("how", ["missing", "empty", "cut at a batch", "cut inside one"])
@pytest.mark.parametrize(("kind", "number", "committed"), PLACES)
def test_a_log_ends_at_its_first_hole_and_proves_no_later_records(
    tmp_path: Path, kind: str, how: str, number: int, recovery_point: str, stop: str, committed: str
) -> None:
    layout = LAYOUTS[kind]
    partition = write(tmp_path / "dir", layout, stop)
    point = recovery_point_of(layout, recovery_point)
    checkpoint(tmp_path / "dir" / RECOVERY_POINT_CHECKPOINT, point)
    watermark = layout.end if committed == "all" else layout.bases[-1]
    checkpoint(tmp_path / "dir" / HIGH_WATERMARK_CHECKPOINT, watermark)
    left = layout.offsets[: damage(partition, layout, number, how)]
    # A segment that begins in a gap says by its name that nothing is missing before it.
    end = left[-1] + 1 if how.startswith("cut") else layout.bases[number]
    boot_id = "later" if stop == "power cut" else "boot"
    node = Node(tmp_path / "dir", "two", boot_id=boot_id)
    assert (node.log.log_start_offset, node.log.log_end_offset) == (0, end)
    assert offsets(node.log) == left
    assert node.log.epochs.cache.entries() == ([(3, 0)] if end else [])
    # A killed process may leave its last write incomplete. Only the high watermark, or the recovery
    # point of an orderly stop, shows how long the last segment was.
    beyond = watermark > end or (stop == "clean" and recovery_point == "present")
    torn = how == "cut inside one" and stop != "clean"
    if number != 2 or beyond or (how == "cut inside one" and not torn):
        assert node.evidence == ()
    elif torn:
        assert node.evidence == (() if stop == "power cut" else ("one",))
    behind = {kept.name for kept in tmp_path.glob(f"dir/*{STRAY_DIRECTORY_SUFFIX}/*.log")}
    if stop != "power cut":
        assert behind == {f"{later:020d}.log" for later in layout.bases[number + 1 :]}
    evidence = node.evidence
    append(node.log, BATCH, epoch=4)
    node.kill()
    again = Node(tmp_path / "dir", "three", boot_id=boot_id)
    assert again.evidence == (*evidence, "two"), "before the registration, too"
    assert offsets(again.log) == [*left, end]
    assert [header.leader_epoch for header in read_all(again.log)] == [3] * len(left) + [4]
    again.manager.close()


@pytest.mark.parametrize("stop", ["killed", "clean", "power cut"])
@pytest.mark.parametrize("recovery_point", POINTS)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_log_that_is_whole_stays_so(
    tmp_path: Path, kind: str, recovery_point: str, stop: str
) -> None:
    """Also if it is compacted: gaps inside of segments are sound."""
    layout = LAYOUTS[kind]
    write(tmp_path / "dir", layout, stop)
    point = recovery_point_of(layout, recovery_point)
    checkpoint(tmp_path / "dir" / RECOVERY_POINT_CHECKPOINT, point)
    checkpoint(tmp_path / "dir" / HIGH_WATERMARK_CHECKPOINT, layout.end)
    node = Node(tmp_path / "dir", "two", boot_id="later" if stop == "power cut" else "boot")
    assert node.log.log_end_offset == layout.end
    assert offsets(node.log) == layout.offsets
    assert not node.log.damaged
    assert node.evidence == (() if stop == "power cut" else ("one",))
    node.manager.close()


# -- compaction and deletion --------------------------------------------------------------------


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in read_all(log)]


def append_at(log: PartitionLog, *bases: int, epoch: int = 0) -> None:
    """Appends as a follower does: single records at the offsets of a leader's log."""
    for base in bases:
        batch = make_batch(base_offset=base, value=b"x" * 20, epoch=epoch)
        stamp = (1000, base)
        info = append_info([batch], [base], next_offset=base + 1, max_timestamp=stamp, epoch=epoch)
        log.writer.append(info)


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """A follower's copy of a compacted log, of segments of two batches."""
    directory = tmp_path / "topic-0"
    log = open_log(directory, LogConfig(segment_bytes=2 * len(BATCH)))
    log.cleaning.mark_gaps()
    append_at(log, 0, 5, 9, 10, 30, 40, 41)
    assert len(log.extent.all) == 4
    log.close(clean=False)
    return directory


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 1, 42])
def test_gaps_of_a_compacted_log_are_sound(
    compacted: Path, recovery_point: int, clean: bool
) -> None:
    log = open_log(compacted, recovery_point=recovery_point, clean=clean)
    assert offsets(log) == [0, 5, 9, 10, 30, 40, 41]
    assert not log.damaged
    log.close(clean=False)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 1, 42])
@pytest.mark.parametrize("how", ["missing", "empty", "cut at a batch"])
def test_a_hole_in_a_compacted_log_counts(
    compacted: Path, how: str, recovery_point: int, clean: bool
) -> None:
    second = sorted(compacted.glob("*.log"))[1]
    if how == "missing":
        second.unlink()
    else:
        with second.open("r+b") as handle:
            handle.truncate(0 if how == "empty" else len(BATCH))
    log = open_log(compacted, recovery_point=recovery_point, clean=clean)
    assert offsets(log) == ([0, 5, 9] if how == "cut at a batch" else [0, 5])
    assert log.damaged
    log.close(clean=False)


def test_a_marker_of_an_earlier_version_allows_gaps_between_segments(compacted: Path) -> None:
    (compacted / GAPS_MARKER).write_bytes(b"")
    sorted(compacted.glob("*.log"))[1].unlink()
    log = open_log(compacted)
    assert offsets(log) == [0, 5, 30, 40, 41]
    assert not log.damaged
    log.close(clean=False)


@pytest.mark.parametrize("clean", [False, True])
def test_deleted_records_are_no_hole(tmp_path: Path, clean: bool) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for _ in range(3):
        append(log, BATCH, BATCH, epoch=0)
        log.roll()
    log.stored_high_watermark = 6
    log.deletion.advance_start(3)
    log.close(clean=clean)
    log = open_log(directory, clean=clean)
    assert (log.log_start_offset, offsets(log), log.damaged) == (2, [2, 3, 4, 5], False)
    log.close(clean=False)
    # An interrupted deletion: the names have changed, the epochs have not.
    (directory / "00000000000000000002.log").rename(directory / "00000000000000000002.log.deleted")
    log = open_log(directory)
    assert (log.log_start_offset, offsets(log), log.damaged) == (4, [4, 5], False)
    log.close(clean=False)
    assert offsets(open_log(directory)) == [4, 5], "also when those files are gone"


def test_a_hole_in_deleted_records(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for _ in range(3):
        append(log, BATCH, BATCH, epoch=0)
        log.roll()
    log.close(clean=False)
    (directory / "00000000000000000002.log").unlink()
    log = open_log(directory, log_start_offset=4)
    assert (log.log_start_offset, offsets(log), log.damaged) == (4, [4, 5], False)
    log.close(clean=False)


def test_no_segment_at_all(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, BATCH, epoch=2)
    log.close(clean=False)
    (tmp_path / "topic-0" / "00000000000000000000.log").unlink()
    log = open_log(tmp_path / "topic-0")
    assert log.damaged
    assert (log.log_end_offset, log.epochs.cache.entries()) == (0, [])
    log.close(clean=False)
