"""The cleaner with real child processes, over a manager of real directories."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning import cleaner as module
from highwater.partition.storage.cleaning.cleaner import Cleaner
from highwater.partition.storage.cleaning.settings import CleanerSettings
from highwater.partition.storage.directory.log_maintenance import (
    LogMaintenance,
    MaintenanceIntervals,
)
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import GAPS_MARKER
from highwater.partition.storage.recovery.segment_ends import INSIDE_ONLY
from highwater.runtime.logging import silent_logger
from tests.support.cleaned_node import CleanedNode, compacted_topic
from tests.support.compacted_logs import keyed_batch, newest, records_in
from tests.support.log_batches import append

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

WAIT_S = 40.0


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[CleanedNode]:
    made = CleanedNode(tmp_path / "logs")
    yield made
    made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.02)


async def stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def names(log: PartitionLog) -> list[str]:
    return sorted(path.name for path in Path(log.directory).iterdir())


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_dirty_log_becomes_small_and_stays_the_same_table(node: CleanedNode) -> None:
    log = node.log()
    node.fill(log)
    before, size = records_in(log), log.extent.size_bytes
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.runs == 1)
    after = records_in(log)
    assert newest(after) == newest(before)
    assert [record.offset for record in after] == [55, 56, 57, 58, 59, 60]
    assert log.extent.size_bytes < size / 5
    assert [segment.base_offset for segment in log.extent.all] == [0, 60]
    assert log.cleaning.first_dirty == 60
    stats = cleaner.stats
    assert stats.bytes_before == size - log.extent.active.size
    assert stats.bytes_after == log.extent.all[0].size
    assert (stats.records_dropped, stats.failed_runs, stats.uncleanable) == (55, 0, 0)
    (told,) = node.logged("log_cleaned")
    assert (told["log"], told["records_kept"]) == ("table-0", 5)
    await asyncio.sleep(0.3)
    assert stats.runs == 1, "there is nothing to do any more"
    assert stats.dirty_ratio_max == 0.0
    await stopped(task)
    checkpoint = Path(log.directory).parent / "cleaner-offset-checkpoint"
    await until(checkpoint.exists)
    assert checkpoint.read_text() == "0\n1\ntable 0 60\n"
    assert not [name for name in names(log) if name.endswith((".cleaned", ".swap"))]


async def test_a_log_in_the_checkpoint_has_a_marker_even_if_nothing_was_removed(
    node: CleanedNode,
) -> None:
    """A cleaned log without a marker would count as Kafka's, with gaps between segments."""
    log = node.log()
    for number in range(3):
        append(log, keyed_batch([(b"%d" % number, b"kept")]), epoch=0)
        log.roll()
    log.stored_high_watermark = log.log_end_offset
    task = asyncio.create_task(node.cleaner().run())
    await until(lambda: log.cleaning.first_dirty == 3)
    assert log.extent.size_bytes == 3 * len(keyed_batch([(b"0", b"kept")]))
    assert (Path(log.directory) / GAPS_MARKER).read_bytes() == INSIDE_ONLY
    await stopped(task)


async def test_the_dirtiest_log_is_first_and_only_compacted_topics_are_cleaned(
    node: CleanedNode,
) -> None:
    half = node.log(compacted_topic("half", 1))
    node.fill(half, segments=2)
    half.cleaning.first_dirty = 20
    whole = node.log(compacted_topic("whole", 2))
    node.fill(whole, segments=2)
    plain = node.log(compacted_topic("plain", 3, cleanup_policy="delete"))
    node.fill(plain)
    lazy = node.log(compacted_topic("lazy", 4, min_cleanable_dirty_ratio="1.0"))
    node.fill(lazy)
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.runs == 2)
    await asyncio.sleep(0.3)
    assert [told["log"] for told in node.logged("log_cleaned")] == ["whole-0", "half-0"]
    assert len(records_in(plain)) == len(records_in(lazy)) == 61
    node.manager.reconfigure(plain, compacted_topic("plain", 3))
    await until(lambda: cleaner.stats.runs == 3)
    assert len(records_in(plain)) == 6
    await stopped(task)


async def test_only_committed_and_old_enough_records_are_cleaned(node: CleanedNode) -> None:
    log = node.log(compacted_topic(min_compaction_lag_ms="1000"))
    node.fill(log)
    log.stored_high_watermark = 39
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await asyncio.sleep(0.4)
    assert cleaner.stats.runs == 0
    node.clock.now_ms += 1_001
    await until(lambda: cleaner.stats.runs == 1)
    assert log.cleaning.first_dirty == 20
    assert [segment.base_offset for segment in log.extent.all] == [0, 20, 40, 60]
    await stopped(task)


async def test_max_compaction_lag_forces_a_pass(node: CleanedNode) -> None:
    log = node.log(compacted_topic(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="5000"))
    node.fill(log)
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await asyncio.sleep(0.3)
    assert cleaner.stats.runs == 0
    node.clock.now_ms += 5_001
    await until(lambda: cleaner.stats.runs == 1)
    await stopped(task)


async def test_a_small_buffer_takes_several_passes(node: CleanedNode) -> None:
    log = node.log()
    node.fill(log, keys=20)
    before = records_in(log)
    cleaner = node.cleaner(dedupe_buffer_bytes=12 * module.BYTES_PER_KEY)
    task = asyncio.create_task(cleaner.run())
    await until(lambda: log.cleaning.first_dirty == 60)
    assert cleaner.stats.runs >= 2
    assert newest(records_in(log)) == newest(before)
    assert len(records_in(log)) == 21
    await stopped(task)


async def test_tombstones_go_after_their_time(node: CleanedNode) -> None:
    log = node.log(compacted_topic(delete_retention_ms="1000"))

    def dirty(number: int) -> None:
        append(log, keyed_batch([(b"k", None), (b"other", b"%d" % number)]))
        log.roll()
        append(log, keyed_batch([(b"last", b"1")]))
        log.stored_high_watermark = log.log_end_offset

    append(log, keyed_batch([(b"k", b"1")]))
    dirty(1)
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.runs == 1)
    assert [(r.offset, r.value) for r in records_in(log) if r.key == b"k"] == [(1, None)]
    node.clock.now_ms += 1_001
    append(log, keyed_batch([(b"more", b"1")]))
    log.roll()
    log.stored_high_watermark = log.log_end_offset
    await until(lambda: cleaner.stats.runs == 2)
    assert [r.key for r in records_in(log)] == [b"other", b"last", b"more"]
    await stopped(task)


@pytest.mark.parametrize("policy", ["compact,delete", "compact"])
async def test_compacted_records_are_deleted_by_retention_if_configured(
    node: CleanedNode, policy: str
) -> None:
    log = node.log(compacted_topic(cleanup_policy=policy, retention_ms="60000"))
    node.fill(log)
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.runs == 1)
    assert [segment.base_offset for segment in log.extent.all] == [0, 60]
    node.clock.now_ms += 60_001
    node.fill(log, keys=3)
    newer = newest([record for record in records_in(log) if record.offset >= 60])
    assert len(newer) == 4
    maintenance = LogMaintenance(
        node.manager, clock=node.clock, intervals=MaintenanceIntervals(), log=silent_logger()
    )
    for _ in maintenance.retention():
        pass
    deletes = policy != "compact"
    assert log.log_start_offset == (60 if deletes else 0)
    assert (log.extent.all[0].base_offset == 60) == deletes
    await until(lambda: cleaner.stats.runs == 2)
    left = newest(records_in(log))
    assert {key: record for key, record in left.items() if record.offset >= 60} == newer
    assert len(left) == len(newer) + (0 if deletes else 2), "keys that nobody has written since"
    assert len(records_in(log)) < 10
    for _ in maintenance.retention():
        pass
    assert log.log_start_offset == (60 if deletes else 0), "what is left is not old enough"
    await stopped(task)


async def test_damage_makes_a_log_uncleanable_and_others_go_on(node: CleanedNode) -> None:
    bad, good = node.log(compacted_topic("bad", 1)), node.log(compacted_topic("good", 2))
    node.fill(bad, segments=4)
    node.fill(good)
    damage(Path(bad.extent.all[1].file))
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.runs == 1)
    await asyncio.sleep(0.3)
    assert (cleaner.stats.failed_runs, cleaner.stats.uncleanable) == (1, 1)
    (told,) = node.logged("log_uncleanable")
    assert told["log"] == "bad-0"
    assert "checksum" in str(told["error"])
    assert len(records_in(good)) == 6
    assert not [name for name in names(bad) if name.endswith(".cleaned")]
    node.manager.delete_log(bad)
    await until(lambda: cleaner.stats.uncleanable == 0)
    await stopped(task)


class Stopped:
    """The cleaner with a child that was stopped (SIGSTOP) after its start."""

    def __init__(self, node: CleanedNode) -> None:
        self.cleaner = node.cleaner()
        self.task = asyncio.create_task(self.cleaner.run())
        self.pid = -1

    async def reach(self) -> Cleaner:
        def started() -> bool:
            process = self.cleaner.process
            return process is not None and process.pid is not None

        await until(started)
        assert self.cleaner.process is not None
        self.pid = self.cleaner.process.pid or -1
        os.kill(self.pid, signal.SIGSTOP)
        return self.cleaner


async def test_a_node_that_stops_ends_the_child(node: CleanedNode) -> None:
    log = node.log()
    node.fill(log)
    stopped_child = Stopped(node)
    await stopped_child.reach()
    assert log.cleaning.running is not None
    await stopped(stopped_child.task)
    assert gone(stopped_child.pid), "killed and reaped"
    assert log.cleaning.running is None
    assert len(records_in(log)) == 61


@pytest.mark.parametrize("change", ["delete", "truncate", "restart", "start", "fail"])
async def test_a_truncation_or_deletion_ends_the_cleaning_of_its_log(
    node: CleanedNode, change: str
) -> None:
    log = node.log()
    node.fill(log)
    other = node.log(compacted_topic("other", 2))
    node.fill(other, segments=1)
    other.cleaning.first_dirty = 20
    stopped_child = Stopped(node)
    cleaner = await stopped_child.reach()
    other.cleaning.first_dirty = 0
    match change:
        case "delete":
            node.manager.delete_log(log)
        case "truncate":
            log.truncate_to(30)
        case "restart":
            log.truncate_fully_and_start_at(100)
        case "start":
            log.deletion.advance_start(25)
        case "fail":
            node.manager.fail_dir(0, _failure())
    assert log.cleaning.running is None
    await until(lambda: gone(stopped_child.pid))
    await until(lambda: cleaner.stats.aborted_runs == 1)
    assert cleaner.stats.failed_runs == 0
    if change != "fail":
        await until(lambda: other.cleaning.first_dirty == 20)
    if change == "truncate":
        assert len(records_in(log)) <= 30
        assert log.cleaning.first_dirty <= 30
    await stopped(stopped_child.task)


def _failure() -> LogDirFailure:
    return LogDirFailure("disk", OSError("gone"))


async def test_appends_and_truncation_above_do_not_disturb_a_cleaning(node: CleanedNode) -> None:
    log = node.log()
    node.fill(log)
    stopped_child = Stopped(node)
    cleaner = await stopped_child.reach()
    append(log, keyed_batch([(b"new", b"1")]))
    log.truncate_to(61)
    assert log.apply_retention() == 0, "not while it is cleaned"
    assert log.cleaning.running is not None
    os.kill(stopped_child.pid, signal.SIGCONT)
    await until(lambda: cleaner.stats.runs == 1)
    assert len(records_in(log)) == 6
    await stopped(stopped_child.task)


async def test_a_failing_child_is_retried_a_limited_number_of_times(
    node: CleanedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = node.log()
    node.fill(log)
    monkeypatch.setattr(module, "RETRY_MS_MAX", 0)
    stopped_child = Stopped(node)
    stats = stopped_child.cleaner.stats
    for attempt in range(1, module.ATTEMPTS_MAX + 1):
        await stopped_child.reach()
        os.kill(stopped_child.pid, signal.SIGKILL)
        await until(lambda attempt=attempt: stats.failed_runs == attempt)
        await until(lambda: stopped_child.cleaner.process is None)
    assert (stats.failed_runs, stats.uncleanable, stats.runs) == (3, 1, 0)
    assert len(node.logged("log_uncleanable")) == 1
    assert len(node.logged("cleaning_failed")) == 1
    assert len(records_in(log)) == 61
    await stopped(stopped_child.task)


async def test_a_bug_does_not_end_the_node(
    node: CleanedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = node.log()
    node.fill(log)

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(module.CleaningRun, "swap", broken)
    cleaner = node.cleaner()
    task = asyncio.create_task(cleaner.run())
    await until(lambda: cleaner.stats.uncleanable == 1)
    assert len(node.logged("cleaner_failed")) == 1
    assert len(records_in(log)) == 61
    assert log.cleaning.running is None
    await stopped(task)


async def test_a_shorter_pause_begins_at_once(node: CleanedNode) -> None:
    """A changed log.cleaner.backoff.ms applies to the present pause."""
    log = node.log()
    node.fill(log)
    cleaner = node.cleaner(backoff_ms=3_600_000)
    task = asyncio.create_task(cleaner.run())
    await asyncio.sleep(0)
    cleaner.reconfigure(CleanerSettings(backoff_ms=3_600_000, io_bytes_per_s=1 << 30))
    await asyncio.sleep(0)
    assert cleaner.stats.runs == 0
    cleaner.reconfigure(CleanerSettings(backoff_ms=100, dedupe_buffer_bytes=2 << 20))
    await until(lambda: cleaner.stats.runs == 1)
    await stopped(task)


async def test_the_cleaner_can_be_disabled(node: CleanedNode) -> None:
    log = node.log()
    node.fill(log)
    cleaner = node.cleaner(enable=False)
    await asyncio.wait_for(cleaner.run(), 5)
    assert len(records_in(log)) == 61
