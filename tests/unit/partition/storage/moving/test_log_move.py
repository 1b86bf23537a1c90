"""A log moves to another directory while it is used, and stays where it is if it cannot."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage.directory.move_mark import read_mark
from highwater.partition.storage.errors import LogDirFailure, MoveGivenUpError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.log_relocation import LogView
from highwater.partition.storage.moving import log_copy, log_move
from highwater.partition.storage.moving.log_copy import LogCopy
from highwater.partition.storage.moving.log_move import LogMove
from tests.support import transactional_logs
from tests.support.log_batches import append, make_batch, read_all
from tests.support.moving_node import NOW_MS, PRODUCER, MovingNode, fill, moved_topic
from tests.support.searches import found_by

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_copy, "PIECE_BYTES", 512)
    monkeypatch.setattr(log_move, "RETRY_S", 0.01)
    monkeypatch.setattr(log_move, "BUSY_S", 0.01)


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / name for name in "abc"]


def contents(log: PartitionLog) -> tuple[object, ...]:
    stable = log.log_end_offset
    return (
        log.log_start_offset,
        read_all(log),
        log.epochs.cache.entries(),
        sorted(map(repr, log.producers.states.entries())),
        log.transactions.aborted(log.log_start_offset, stable),
        transactional_logs.indexed(log),
        [segment.base_offset for segment in log.extent.all],
    )


def rich(node: MovingNode, topic_name: str = "orders") -> PartitionLog:
    """A log with everything that a log may have."""
    log = node.open(moved_topic(topic_name))
    fill(log, 30, roll_every=7)
    transactional_logs.write(log, 7, records=3)
    transactional_logs.end(log, 7, commit=False)
    fill(log, 3)
    log.roll()
    transactional_logs.write(log, 8)
    transactional_logs.end(log, 8, commit=False)
    log.stored_high_watermark = log.log_end_offset
    log.advance_start(16)
    return log


async def test_a_log_moves_with_all_that_belongs_to_it(dirs: list[Path]) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    before = contents(log)
    await node.flush(log)
    move = node.move(log, 1)
    await move.run()
    assert move.moved
    assert (move.lag, node.events) == (0, [1, "released"])
    assert node.places() == [[], ["orders-0"]]
    assert node.manager.dir_index(log) == 1
    assert [hosted.log_count for hosted in node.manager.dirs] == [0, 1]
    assert log.directory == str(dirs[1] / "orders-0")
    assert contents(log) == before
    assert found_by(log.search.first_at_or_after(NOW_MS + 20))[1] == 20
    fill(log, 5, roll_every=2)
    log.roll()
    fill(log, 2)
    after = contents(log)
    await node.flush(log)
    assert log.durability.recovery_point == log.log_end_offset
    assert node.close() == []
    assert not (dirs[0] / "orders-0").exists()

    node = MovingNode(*dirs[:2])
    again = node.open()
    assert again.directory == str(dirs[1] / "orders-0")
    assert (again.recovered_segments, again.damaged) == (0, False)
    assert contents(again) == after
    assert again.stored_high_watermark == 72
    states = again.producers.states
    last = {e.producer_id: e.last_sequence for e in states.entries()}[PRODUCER]
    end = again.log_end_offset
    assert states.check(PRODUCER, 0, last + 1, last + 2) == ACCEPT, end
    assert node.close() == []


async def test_a_log_moves_on_and_back(dirs: list[Path]) -> None:
    node = MovingNode(*dirs)
    log = rich(node)
    for number, index in enumerate((1, 2, 0, 1, 0), start=1):
        fill(log, 3)
        before = contents(log)
        await node.move(log, index).run()
        assert contents(log) == before
        places = node.places()
        assert places[index] == ["orders-0"]
        assert [name for names in places for name in names] == ["orders-0"]
        assert read_mark(FileSystem(), log.directory).generation == number
    assert node.close() == []


async def test_an_empty_log_moves(dirs: list[Path]) -> None:
    node = MovingNode(*dirs[:2])
    log = node.open()
    await node.move(log, 1).run()
    fill(log, 2)
    await node.flush(log)
    node.close()
    node = MovingNode(*dirs[:2])
    assert len(read_all(node.open())) == 2
    node.close()


async def test_readers_that_have_a_file_open_may_finish(dirs: list[Path]) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    found = log.reader.read(16, 1000, end_offset=log.log_end_offset)
    assert found is not None
    found.segment.pin()
    await node.move(log, 1).run()
    data = os.pread(found.segment.fd, found.length, found.position)
    assert len(data) == found.length
    found.segment.unpin()
    assert found.segment.fd < 0
    again = log.reader.read(16, 1000, end_offset=log.log_end_offset)
    assert again is not None
    assert again.segment is not found.segment
    assert again.segment.path.startswith("orders-0/")
    assert log.reader.read(16, 1000, end_offset=log.log_end_offset) is not None
    node.close()


async def test_nothing_is_written_to_the_old_directory_any_more(dirs: list[Path]) -> None:
    old = FileSystem()
    node = MovingNode(*dirs[:2], filesystems={dirs[0]: old})
    log = rich(node)
    await node.move(log, 1).run()
    await node.settled()
    for name in ("open", "pwritev", "fsync", "fdatasync", "ftruncate", "rename", "pread"):
        setattr(old, name, failing())
    fill(log, 10, roll_every=3)
    log.shorten_tail()
    read_all(log)
    found_by(log.search.first_with_largest())
    log.truncate_to(log.log_end_offset - 3)
    log.advance_start(30)
    log.apply_retention()
    await node.flush(log)
    assert node.failures == []
    node.close()


def failing(code: int = errno.EIO) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


class Tampering:
    """Does random things to a log between the turns of the loop, and keeps what must be in it."""

    def __init__(self, node: MovingNode, log: PartitionLog, seed: int) -> None:
        self.node, self.log = node, log
        self.random = random.Random(seed)
        self.values: list[tuple[int, bytes]] = []
        self.start = 0
        self._number = 0

    def append(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self._number += 1
            value = b"%d " % self._number * self.random.randint(1, 60)
            offset = self.log.log_end_offset
            append(self.log, make_batch(value=value), epoch=self._number // 9)
            self.values.append((offset, value))

    def truncate(self) -> None:
        end = self.random.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.truncate_to(end)
        self.values = [found for found in self.values if found[0] < end]

    def advance(self) -> None:
        span = self.log.log_end_offset - self.log.log_start_offset
        self.log.advance_start(self.log.log_start_offset + self.random.randint(0, span) // 4)

    async def go_on(self) -> None:
        while True:
            log = self.log
            if not log.late_writer.writing:
                do = [self.append, self.append, self.append, log.roll, self.truncate]
                self.random.choice(do)()
                log.stored_high_watermark = log.log_end_offset
            if self.random.random() < 0.2:
                self.advance()
            if self.random.random() < 0.2:
                log.apply_retention()
            if self.random.random() < 0.1:
                self.node.manager.flush(log, lambda: None)
            if self.random.random() < 0.1:
                log.keep_start(lambda: None)
            await asyncio.sleep(self.random.choice([0, 0, 0.001]))

    def check(self, log: PartitionLog) -> None:
        offsets = [offset for offset, _ in self.values if offset >= log.log_start_offset]
        assert [header.base_offset for header in read_all(log)] == offsets
        found = b"".join(Path(segment.file).read_bytes() for segment in log.extent.all)
        missing = [offset for offset, value in self.values if value not in found]
        assert not set(missing) & set(offsets)


@pytest.mark.parametrize("chance", range(12))
async def test_a_log_moves_while_everything_happens_to_it(
    dirs: list[Path], chance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "SWITCH_BYTES", 4000)
    node = MovingNode(*dirs)
    log = node.open()
    tampering = Tampering(node, log, chance)
    for _ in range(30):
        tampering.append()
        if tampering.random.random() < 0.2:
            log.roll()
    log.stored_high_watermark = log.log_end_offset
    task = asyncio.get_running_loop().create_task(tampering.go_on())
    try:
        for index in (1, 2, 0):
            async with asyncio.timeout(20):
                await node.move(log, index).run()
            assert [name for names in node.places() for name in names] == ["orders-0"]
    finally:
        task.cancel()
    await asyncio.wait({task})
    assert task.cancelled(), task.exception()
    tampering.check(log)
    before = contents(log)
    await node.flush(log)
    assert node.failures == []
    assert node.close() == []
    node = MovingNode(*dirs)
    again = node.open()
    tampering.check(again)
    assert contents(again) == before
    node.close()


async def test_a_start_that_moved_while_the_log_was_held_is_not_lost(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeleteRecords is answered when the checkpoint has the start; no crash may undo it."""
    node = MovingNode(*dirs[:2])
    log = rich(node)
    finish, finished = LogCopy.finish, []

    def slow(self: LogCopy, view: LogView, **options: Any) -> None:
        finish(self, view, **options)
        finished.append(view.start_offset)
        if len(finished) == 1:
            loop.call_soon_threadsafe(log.advance_start, 20)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(LogCopy, "finish", slow)
    await node.move(log, 1).run()
    assert finished == [16, 20]
    # As after kill -9: what the checkpoint of the new directory says.
    told = (dirs[1] / "log-start-offset-checkpoint").read_text()
    assert "orders 0 20" in told
    node.close()


# ---- moves that are given up ----


async def stays(node: MovingNode, log: PartitionLog, move: LogMove, match: str = "") -> None:
    """The move is given up, and the log is as before."""
    before = contents(log)
    with pytest.raises(MoveGivenUpError, match=match):
        await move.run()
    await move.discard()
    assert not move.moved
    assert node.manager.dir_index(log) == 0
    assert contents(log) == before
    assert not log.late_writer.writing
    assert log.cleaning.running is None
    fill(log, 3)
    await node.flush(log)
    assert node.manager.arriving == []
    assert node.places()[0] == ["orders-0"]


@pytest.mark.parametrize(
    ("call", "code"),
    [("pwritev", errno.ENOSPC), ("fdatasync", errno.EIO), ("mkdir", errno.EROFS)],
)
async def test_a_target_that_fails_or_is_full_ends_the_move(
    dirs: list[Path], call: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "SYNC_EVERY_BYTES", 300)
    files = FileSystem()
    node = MovingNode(*dirs[:2], filesystems={dirs[1]: files})
    log = rich(node)
    setattr(files, call, failing(code))
    await stays(node, log, node.move(log, 1), os.strerror(code))
    assert node.failures == []
    assert node.places() == [["orders-0"], []]
    setattr(files, call, getattr(FileSystem(), call))
    await node.move(log, 1).run()
    assert node.places() == [[], ["orders-0"]]
    assert node.close() == []


async def test_a_target_that_goes_offline_ends_the_move(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    step = LogCopy.step

    def fails(self: LogCopy, view: LogView) -> int:
        failure = LogDirFailure("b", OSError(errno.EIO, "b"))
        loop.call_soon_threadsafe(node.manager.fail_dir, 1, failure)
        return step(self, view)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(LogCopy, "step", fails)
    await stays(node, log, node.move(log, 1), "offline")
    assert [index for index, _ in node.failures] == [1]
    node.close()


async def test_a_copy_that_cannot_be_renamed_never_counts_more_than_the_log(
    dirs: list[Path],
) -> None:
    files = FileSystem()
    node = MovingNode(*dirs[:2], filesystems={dirs[1]: files})
    log = rich(node)
    rename = files.rename

    def fails(old: str, new: str, **places: Any) -> None:
        if old.endswith("-future") and not new.endswith("-delete"):
            raise OSError(errno.EIO, "rename")
        rename(old, new, **places)

    files.rename = fails
    move = node.move(log, 1)
    with pytest.raises(MoveGivenUpError, match="renamed"):
        await move.run()
    assert read_mark(FileSystem(), log.directory).generation == 2
    # The worst case: the disk has renamed it all the same, and says so after a power cut.
    copy = next(dirs[1].glob("*-future"))
    fill(log, 2)
    before = contents(log)
    await node.flush(log)
    node.close()
    copy.rename(dirs[1] / "orders-0")
    node = MovingNode(*dirs[:2])
    assert contents(node.open()) == before
    assert node.places() == [["orders-0"], ["orders-0.T-stray"]]
    node.close()


async def test_a_directory_that_fails_takes_the_move_with_it(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileSystem()
    node = MovingNode(*dirs[:2], filesystems={dirs[0]: files})
    log = rich(node)
    step = LogCopy.step

    def fails(self: LogCopy, view: LogView) -> int:
        files.rename = failing()
        return step(self, view)

    monkeypatch.setattr(LogCopy, "step", fails)
    with pytest.raises(MoveGivenUpError):
        await node.move(log, 1).run()
    assert [index for index, _ in node.failures] == [0]
    assert not log.late_writer.writing
    node.close()


async def test_a_log_that_is_deleted_does_not_move(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    step = LogCopy.step

    def deletes(self: LogCopy, view: LogView) -> int:
        loop.call_soon_threadsafe(node.manager.delete_log, log)
        return step(self, view)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(LogCopy, "step", deletes)
    move = node.move(log, 1)
    with pytest.raises(MoveGivenUpError, match="deleted"):
        await move.run()
    await move.discard()
    assert node.places() == [[], []]
    assert node.close() == []


@pytest.mark.parametrize("late", [False, True])
async def test_a_move_is_cancelled(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    method = "finish" if late else "step"
    call = getattr(LogCopy, method)
    move = node.move(log, 1)

    def cancels(self: LogCopy, *args: Any, **options: Any) -> Any:
        loop.call_soon_threadsafe(move.cancel, "not wanted")
        return call(self, *args, **options)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(LogCopy, method, cancels)
    await stays(node, log, move, "not wanted")
    assert node.places() == [["orders-0"], []]
    assert node.events == (["released"] if late else [])
    assert node.close() == []


async def test_a_log_with_damaged_records_stays(dirs: list[Path]) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    log.lost.add(17, 19)
    with pytest.raises(MoveGivenUpError, match="damaged"):
        await node.move(log, 1).run()
    node.close()


async def test_a_target_that_hangs_holds_appends_up_only_for_a_while(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "HELD_S_MAX", 0.2)
    node = MovingNode(*dirs[:2])
    log = rich(node)
    wake = threading.Event()
    finish = LogCopy.finish

    def hangs(self: LogCopy, *args: Any, **options: Any) -> None:
        assert wake.wait(20)
        finish(self, *args, **options)

    monkeypatch.setattr(LogCopy, "finish", hangs)
    move = node.move(log, 1)
    with pytest.raises(MoveGivenUpError, match="took longer"):
        await move.run()
    assert not log.late_writer.writing
    fill(log, 3)
    assert node.events == ["released"]
    wake.set()
    await move.discard()
    assert node.places() == [["orders-0"], []]
    assert node.close() == []


async def test_a_log_that_is_being_cleaned_or_written_late_moves_afterwards(
    dirs: list[Path],
) -> None:
    node = MovingNode(*dirs[:2])
    log = rich(node)
    log.late_writer.hold()
    task = asyncio.get_running_loop().create_task(node.move(log, 1).run())
    await asyncio.sleep(0.2)
    assert node.places()[1] == ["orders-0.T-future"]
    log.late_writer.release()
    await task
    assert node.places() == [[], ["orders-0"]]
    node.close()


async def test_the_pace_limits_all_moves(dirs: list[Path]) -> None:
    node = MovingNode(*dirs[:2])
    log = node.open()
    fill(log, 40, value=b"v" * 100)
    size = log.extent.size_bytes
    node.pace.set_rate(node.clock.monotonic_ms(), size * 2)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await node.move(log, 1).run()
    assert loop.time() - began > 0.3
    node.close()


async def test_a_move_that_was_stopped_is_known_at_the_next_start(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_move, "SWITCH_BYTES", -1)  # It never ends.
    node = MovingNode(*dirs[:2])
    log = rich(node)
    before = contents(log)
    task = asyncio.get_running_loop().create_task(node.move(log, 1, "e" * 32).run())
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait({task})
    assert node.close() == []
    node = MovingNode(*dirs[:2])
    assert node.manager.unfinished.begun == {"orders-0": (1, "e" * 32)}
    log = node.open()
    assert contents(log) == before
    monkeypatch.setattr(log_move, "SWITCH_BYTES", 1 << 20)
    await node.move(log, 1, "e" * 32).run()
    assert contents(log) == before
    assert node.places() == [[], ["orders-0"]]
    node.close()
