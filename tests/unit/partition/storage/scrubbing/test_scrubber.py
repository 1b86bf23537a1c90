"""Rounds over a directory's logs: findings, the place after a restart, skipped segments."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.storage.directory.hosted_directory import HostedDirectory
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import SCRUB_STATE
from highwater.partition.storage.scrubbing import scrubber
from highwater.partition.storage.scrubbing.scrub import SegmentFile
from highwater.partition.storage.scrubbing.scrubber import Damage, LogScrubber
from tests.support.log_batches import ManualClock, append, make_batch
from tests.unit.partition.storage.scrubbing.test_scrub import flip

TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)
FAST = 1 << 40


class Node:
    """A directory with two logs of three closed segments each."""

    def __init__(self, path: Path, *, bytes_per_s: int = FAST) -> None:
        loop = asyncio.get_running_loop()
        self.failed: list[int] = []
        self.manager = LogManager(
            [path],
            clock=ManualClock(),
            post=loop.call_soon_threadsafe,
            on_dir_failure=lambda index, _failure: self.failed.append(index),
        )
        self.manager.open()
        self.manager.start()
        self.hosted = self.manager.dirs[0]
        self.logs = [self.manager.open_log(TOPIC, number)[0] for number in range(2)]
        for log in self.logs:
            while len(log.extent.all) < 4:
                append(log, make_batch(value=b"v" * 50), make_batch(), epoch=0)
                log.roll()
        self.found: list[tuple[PartitionLog, Damage]] = []
        self.scrubber = LogScrubber(
            self.manager,
            bytes_per_s=bytes_per_s,
            pause_s=0.01,
            on_damage=lambda log, damage: self.found.append((log, damage)),
        )

    @property
    def closed_bytes(self) -> int:
        return sum(segment.size for log in self.logs for segment in log.extent.all[:-1])

    def watch(self, look: Callable[[SegmentFile], None], monkeypatch: pytest.MonkeyPatch) -> None:
        """Calls `look` on the thread after each piece was read."""
        check = scrubber.check_piece

        def watched(filesystem, file, position, expected):  # type: ignore[no-untyped-def]
            piece = check(filesystem, file, position, expected)
            look(file)
            return piece

        monkeypatch.setattr(scrubber, "check_piece", watched)


async def test_sound_logs(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.scrubber.round(node.hosted)
    assert node.found == []
    assert node.scrubber.checked_bytes == node.closed_bytes
    node.manager.close()


async def test_the_other_segments_of_a_damaged_log_are_checked(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.logs[0]
    flip(log.extent.all[0].file, 70)
    log.lost.add(0, 1)
    flip(log.extent.all[2].file, 70)
    await node.scrubber.round(node.hosted)
    ((where, damage),) = node.found
    assert (where, damage.first) == (log, 4)
    node.manager.close()


async def test_a_flipped_bit_is_found_and_reported_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    log = node.logs[1]
    flip(log.extent.all[1].file, 70)
    await node.scrubber.round(node.hosted)
    ((where, damage),) = node.found
    assert where is log
    assert (damage.first, damage.end, damage.position) == (2, 3, 0)
    assert damage.file == log.extent.all[1].path
    assert node.scrubber.damages == 1
    log.lost.add(damage.first, damage.end)
    await node.scrubber.round(node.hosted)
    assert len(node.found) == 1, "a log that is known to be damaged is left alone"
    node.manager.close()


async def test_the_active_segment_is_not_checked(tmp_path: Path) -> None:
    node = Node(tmp_path)
    append(node.logs[0], make_batch())
    flip(node.logs[0].extent.active.file, 65)
    await node.scrubber.round(node.hosted)
    assert node.found == []
    node.manager.close()


async def test_a_round_continues_after_a_restart(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first = node.logs[0].extent.all[0]
    flip(first.file, 65)
    flip(node.logs[1].extent.all[2].file, 65)
    await node.scrubber.round(node.hosted, ("orders-0", first.base_offset))
    assert [damage.file for _, damage in node.found] == [node.logs[1].extent.all[2].path]
    node.manager.close()


async def test_the_place_is_kept_in_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    kept: list[tuple[str, int]] = []
    write = scrubber._write_place

    def watched(hosted: HostedDirectory, place: tuple[str, int]) -> None:
        write(hosted, place)
        kept.append(scrubber._read_place(hosted))

    monkeypatch.setattr(scrubber, "_write_place", watched)
    await node.scrubber.round(node.hosted)
    node.manager.close()
    segments = [(f"orders-{p}", s.base_offset) for p in range(2) for s in node.logs[p].extent.all]
    assert kept == [*segments[:3], *segments[4:7], ("", -1)]
    (tmp_path / SCRUB_STATE).write_text('{"version": 1, "log": "orders-0", "segment": 2}')
    assert scrubber._read_place(node.hosted) == ("orders-0", 2)
    (tmp_path / SCRUB_STATE).write_text('{"version": 1, "log"')
    assert scrubber._read_place(node.hosted) == ("", -1)


@pytest.mark.parametrize("change", ["truncated", "deleted", "gone"])
async def test_a_segment_that_changes_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    node = Node(tmp_path)
    log = node.logs[0]
    flip(log.extent.all[1].file, 65)
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def change_it() -> None:
        if changed.is_set():
            return
        changed.set()
        if change == "truncated":
            log.truncate_to(2)
            for _ in range(3):
                append(log, make_batch(value=b"v" * 50), make_batch())
                log.roll()
        elif change == "deleted":
            log.stored_high_watermark = log.log_end_offset
            log.deletion.advance_start(4)
        else:
            node.manager.delete_log(log)

    def look(file: SegmentFile) -> None:
        if file.base_offset == 2 and not changed.is_set():
            asyncio.run_coroutine_threadsafe(_call(change_it), loop).result(5)

    node.watch(look, monkeypatch)
    await node.scrubber.round(node.hosted)
    assert changed.is_set()
    assert node.found == []
    node.manager.close()


async def _call(function: Callable[[], None]) -> None:
    function()


async def test_the_scrubber_keeps_to_its_rate(tmp_path: Path) -> None:
    node = Node(tmp_path, bytes_per_s=4000)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await node.scrubber.round(node.hosted)
    assert loop.time() - begun >= node.closed_bytes / 4000
    node.manager.close()


async def test_the_scrubber_runs_until_it_is_cancelled(tmp_path: Path) -> None:
    node = Node(tmp_path)
    task = asyncio.create_task(node.scrubber.run())
    async with asyncio.timeout(10):
        while node.scrubber.rounds < 3:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    node.manager.close()
