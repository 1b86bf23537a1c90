"""New segments are swapped into a log; a crash at any time leaves the old or the new log."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning.swap import AbortedError, CleaningRun
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import GAPS_MARKER
from highwater.partition.storage.recovery.segment_ends import INSIDE_ONLY
from tests.support.cleaned_node import CleanedNode
from tests.support.compacted_logs import copied, job_of, newest, records_in, rewritten
from tests.support.log_batches import open_log
from tests.support.losing_disk import LosingFileSystem

pytestmark = pytest.mark.timeout(60)


class Watched(FileSystem):
    """Calls `before` before every rename, unlink and sync."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[str], None] = lambda _: None
        for name in ("rename", "unlink", "fsync"):
            setattr(self, name, self._watched(name, getattr(self, name)))

    def _watched(self, name: str, call: Callable[..., None]) -> Callable[..., None]:
        def watched(*args: object, **options: object) -> None:
            self.before(name)
            call(*args, **options)

        return watched


@pytest.fixture
def files() -> Watched:
    return Watched()


@pytest.fixture
async def node(tmp_path: Path, files: Watched) -> AsyncIterator[CleanedNode]:
    made = CleanedNode(tmp_path / "logs", files)
    yield made
    made.close()


def left_over(log: PartitionLog) -> list[Path]:
    return list(Path(log.directory).glob("*.log.swap"))


def run_of(node: CleanedNode, log: PartitionLog) -> CleaningRun:
    made = CleaningRun(
        node.entry(log),
        60,
        on_abort=lambda: None,
        fail=lambda failure: node.manager.fail_dir(0, failure),
    )
    log.cleaning.running = made
    return made


async def filled(node: CleanedNode) -> PartitionLog:
    log = node.log()
    node.fill(log)
    await node.settle()
    return log


async def test_a_crash_before_any_call(node: CleanedNode, files: Watched, tmp_path: Path) -> None:
    log = await filled(node)
    before = records_in(log)
    # Two groups, so that the second one's new files are there while the first one is swapped.
    groups, _ = rewritten(job_of(log, segment_bytes=log.extent.all[0].size * 2))
    assert [list(group.bases) for group in groups] == [[0, 20], [40]]
    crashes: list[Path] = []

    def crash(_: str) -> None:
        crashes.append(copied(log.directory, tmp_path / "crashes" / str(len(crashes)) / "table-0"))

    files.before = crash
    run = run_of(node, log)
    for group in groups:
        await run.swap(group, index_bytes=10 << 20)
    crash("")
    files.before = lambda _: None
    after = records_in(log)
    assert len(after) < len(before)
    assert newest(after) == newest(before)
    assert len(crashes) > 20
    found = []
    for directory in crashes:
        for _ in range(2):
            again = open_log(directory)
            found.append(records_in(again))
            assert newest(found[-1]) == newest(before)
            assert not [*directory.glob("*.swap"), *directory.glob("*.cleaned")]
            again.close(clean=False)
    assert found[0] == before
    assert found[-1] == after
    sizes = [len(records) for records in found]
    assert sizes == sorted(sizes, reverse=True), "never back again"


class RenamedWhileOnDisk(LosingFileSystem):
    """Notes what a power cut would leave of a marker before each rename and after each sync."""

    def __init__(self, root: Path, marker: Path) -> None:
        super().__init__(root)
        self.marker = marker
        self.found: list[tuple[str, bytes | None]] = []
        rename, fsync = self.rename, self.fsync

        def noted_rename(old: str, new: str, **places: int) -> None:
            self.found.append((Path(new).name, self._marker()))
            rename(old, new, **places)

        def noted_sync(fd: int) -> None:
            fsync(fd)
            self.found.append(("sync", self._marker()))

        self.rename, self.fsync = noted_rename, noted_sync

    def _marker(self) -> bytes | None:
        return self.on_disk(self.marker) if self.marker.parent.exists() else None


async def test_the_marker_is_on_disk_as_a_whole_before_the_first_gap(tmp_path: Path) -> None:
    """An empty one allows gaps between segments for ever: a segment that is lost is not missed."""
    files = RenamedWhileOnDisk(tmp_path, tmp_path / "logs" / "table-0" / GAPS_MARKER)
    node = CleanedNode(tmp_path / "logs", files)
    try:
        log = await filled(node)
        groups, _ = rewritten(job_of(log))
        await run_of(node, log).swap(groups[0], index_bytes=10 << 20)
        assert {content for _, content in files.found} <= {None, INSIDE_ONLY}
        swapped = [content for name, content in files.found if name.endswith(".log.swap")]
        assert swapped == [INSIDE_ONLY]
    finally:
        node.close()


async def test_a_follower_s_marker_is_synced_soon(tmp_path: Path) -> None:
    files = RenamedWhileOnDisk(tmp_path, tmp_path / "logs" / "table-0" / GAPS_MARKER)
    node = CleanedNode(tmp_path / "logs", files)
    try:
        log = await filled(node)
        log.cleaning.mark_gaps()
        log.durability.flush()
        await node.settle()
        assert files.found[-1] == ("sync", INSIDE_ONLY)
    finally:
        node.close()


async def test_readers_at_every_moment(node: CleanedNode, files: Watched) -> None:
    log = await filled(node)
    expected = newest(records_in(log))
    groups, _ = rewritten(job_of(log))
    run = run_of(node, log)
    ended = asyncio.create_task(run.swap(groups[0], index_bytes=10 << 20))
    paths = set()
    while not ended.done():
        log._place.environment.files.capacity = 1
        assert newest(records_in(log)) == expected
        paths.add(Path(log.extent.all[0].file).name)
        await asyncio.sleep(0)
    await ended
    assert paths >= {f"{0:020d}.log", f"{0:020d}.log.swap"}
    assert Path(log.extent.all[0].file).name == f"{0:020d}.log"
    assert log.extent.all[0].path == f"table-0/{0:020d}.log"


@pytest.mark.parametrize("calls", range(0, 30, 3))
async def test_aborted_before_any_call(node: CleanedNode, files: Watched, calls: int) -> None:
    """A truncation during the swap: a start finds the truncated log."""
    log = await filled(node)
    groups, _ = rewritten(job_of(log))
    run = run_of(node, log)
    loop = asyncio.get_running_loop()
    count = 0

    def truncate() -> None:
        log.truncate_to(30)

    def counted(_: str) -> None:
        nonlocal count
        count += 1
        if count == calls:
            files.before = lambda _: None
            loop.call_soon_threadsafe(truncate)

    files.before = counted
    try:
        await run.swap(groups[0], index_bytes=10 << 20)
    except AbortedError:
        # The log may already have the new segment, which gets its own name soon.
        assert {str(path) for path in left_over(log)} <= {s.file for s in log.extent.all}
    else:
        files.before = lambda _: None
        truncate()
    await asyncio.sleep(0.2)
    expected = records_in(log)
    assert all(record.offset < 30 for record in expected)
    log.close(clean=False)
    again = open_log(Path(log.directory))
    assert records_in(again) == expected
    again.close(clean=False)
    node.manager.fail_dir(0, LogDirFailure("the test has closed its log", OSError()))


@pytest.mark.parametrize("calls", [1, 4, 5, 9, 16, 22])
async def test_a_disk_that_fails(node: CleanedNode, files: Watched, calls: int) -> None:
    log = await filled(node)
    before = newest(records_in(log))
    groups, _ = rewritten(job_of(log))
    run = run_of(node, log)
    count = 0

    def failing(_: str) -> None:
        nonlocal count
        count += 1
        if count >= calls:
            raise OSError(errno.EIO, "broken")

    files.before = failing
    try:
        await run.swap(groups[0], index_bytes=10 << 20)
    except AbortedError:
        assert len(node.failures) == 1
    files.before = lambda _: None
    again = open_log(Path(log.directory))
    assert newest(records_in(again)) == before
    again.close(clean=False)


async def test_nothing_is_done_after_an_abort(node: CleanedNode) -> None:
    log = await filled(node)
    groups, _ = rewritten(job_of(log))
    run = run_of(node, log)
    run.abort()
    run.abort()
    with pytest.raises(AbortedError):
        await run.swap(groups[0], index_bytes=10 << 20)
    assert [segment.base_offset for segment in log.extent.all] == [0, 20, 40, 60]
