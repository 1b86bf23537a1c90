"""The power fails, or the process is killed, between any two steps of a move.

Both disks lose what was not synced, or one of them does, or none, as after kill -9. Whatever is
left, the next start finds the log once, with every record that was acknowledged, and no other.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.partition.storage.errors import StorageError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.moving import log_move
from tests.support import transactional_logs
from tests.support.log_batches import read_all
from tests.support.losing_disk import LosingFileSystem
from tests.support.moving_node import MovingNode, fill

pytestmark = [pytest.mark.timeout(600)]

LOSES = (
    pytest.param("", id="none"),
    pytest.param("a", id="a", marks=pytest.mark.full),
    pytest.param("b", id="b", marks=pytest.mark.full),
    pytest.param("ab", id="ab"),
)
"""Which disks lose what was not synced."""


class Power:
    """Fails at the n-th operation that changes something on one of the disks."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.used = 0

    def use(self) -> None:
        if self.left is not None:
            if self.left <= 0:
                raise OSError(errno.EIO, "no power")
            self.left -= 1
            self.used += 1


class Disk(LosingFileSystem):
    """A disk that needs power to change."""

    def __init__(self, root: Path, power: Power) -> None:
        root.mkdir(parents=True, exist_ok=True)
        super().__init__(root)
        self._power = power
        for name in ("rename", "unlink", "mkdir", "fsync", "fdatasync", "pwritev", "ftruncate"):
            setattr(self, name, self._powered(getattr(self, name)))
        self.open = self._powered_open(self.open)

    def _powered(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def powered(*args: Any, **options: Any) -> Any:
            self._power.use()
            return call(*args, **options)

        return powered

    def _powered_open(self, call: Callable[..., int]) -> Callable[..., int]:
        def powered(path: Any, flags: int, *mode: Any, **places: Any) -> int:
            if mode:  # It may create the file.
                self._power.use()
            return call(path, flags, *mode, **places)

        return powered


class Machine:
    """Two disks, and what must be on them."""

    def __init__(self, root: Path) -> None:
        self.power = Power()
        self.dirs = [root / name for name in "ab"]
        self.disks = {path: Disk(path, self.power) for path in self.dirs}

    def start(self) -> MovingNode:
        return MovingNode(*self.dirs, filesystems=self.disks)

    async def prepare(self) -> tuple[MovingNode, PartitionLog]:
        """A node with a log that is on disk as a whole."""
        node = self.start()
        log = node.open()
        fill(log, 12, roll_every=4)
        transactional_logs.write(log, 7, records=2)
        transactional_logs.end(log, 7, commit=False)
        log.stored_high_watermark = log.log_end_offset
        log.advance_start(5)
        await node.flush(log)
        await node.settled()
        return node, log

    async def move(self, node: MovingNode, log: PartitionLog, left: int | None) -> int:
        """Moves the log and appends to it until the power fails; returns what is acknowledged."""
        self.power.left = 1 << 30 if left is None else left
        acknowledged = log.log_end_offset
        try:
            await node.move(log, 1, "c" * 32).run()
            fill(log, 2)
            await node.flush(log)
            acknowledged = log.log_end_offset
        except (StorageError, TimeoutError, OSError):
            assert left is not None
        return acknowledged

    def fail(self, node: MovingNode, loses: str) -> None:
        """What the process leaves; then the power is back."""
        self.power.left = 0
        node.close()
        for path, disk in self.disks.items():
            if path.name in loses:
                disk.cut_power()
        self.power.left = None


def snapshot(log: PartitionLog, end: int) -> tuple[object, ...]:
    """What has to be there of a log up to an offset."""
    return (
        log.log_start_offset,
        [header for header in read_all(log) if header.base_offset < end],
        [entry for entry in log.epochs.cache.entries() if entry[1] < end],
        [
            one
            for some in transactional_logs.indexed(log)
            for one in some
            if 5 <= one.last_offset < end
        ],
    )


async def crash(root: Path, left: int, loses: str) -> tuple[int, list[list[str]]]:
    """One run; returns how many operations there were, and the places after the start."""
    machine = Machine(root)
    node, log = await machine.prepare()
    wanted_end = log.log_end_offset
    wanted = snapshot(log, wanted_end)
    known = sorted(map(repr, log.producers.states.entries()))
    acknowledged = await machine.move(node, log, left)
    machine.fail(node, loses)
    node = machine.start()
    try:
        assert node.failures == []
        assert node.manager.unusable == {}
        found = node.open()
        places = node.places()
        told = f"{left} operations, {loses or 'no disk'} lost: {places}"
        assert sum(names.count("orders-0") for names in places) == 1, told
        assert snapshot(found, wanted_end) == wanted, told
        assert acknowledged <= found.log_end_offset <= wanted_end + 4, told
        offsets = [header.base_offset for header in read_all(found)]
        assert offsets == sorted(set(offsets)), told
        assert not found.damaged, told
        if found.log_end_offset == wanted_end:
            assert sorted(map(repr, found.producers.states.entries())) == known, told
        # It goes on, and so does the move.
        fill(found, 3)
        before = snapshot(found, found.log_end_offset)
        index = 1 - node.manager.dir_index(found)
        await node.move(found, index).run()
        assert snapshot(found, found.log_end_offset) == before, told
        await node.flush(found)
        node.close()
        node = machine.start()
        assert snapshot(node.open(), found.log_end_offset) == before, told
        return machine.power.used, places
    finally:
        node.close()


async def operations(root: Path) -> int:
    """How many operations a move has, with appends after it."""
    machine = Machine(root)
    node, log = await machine.prepare()
    await machine.move(node, log, None)
    used = machine.power.used
    node.close()
    return used


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_move, "RETRY_S", 0.001)
    monkeypatch.setattr(log_move, "HELD_S_MAX", 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("loses", LOSES)
async def test_a_crash_after_each_operation(tmp_path: Path, loses: str) -> None:
    count = await operations(tmp_path / "whole")
    assert count > 40
    seen = set()
    for left in range(count + 1):
        _, places = await crash(tmp_path / str(left), left, loses)
        seen.add(str(places))
    # Both outcomes are among them, and copies that are begun again.
    assert str([["orders-0"], []]) in seen
    assert str([[], ["orders-0"]]) in seen
    assert str([["orders-0"], ["orders-0.T-future"]]) in seen


async def test_the_disks_of_these_tests_lose_renames_that_were_not_synced(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    node, log = await machine.prepare()
    await node.move(log, 1).run()
    await node.settled()
    node.close()
    (path_a, path_b) = machine.dirs
    (path_b / "orders-0").rename(path_b / "renamed")
    machine.disks[path_b].cut_power()
    assert (path_b / "orders-0").is_dir()
    assert not (path_b / "renamed").exists()
    assert not (path_a / "orders-0").exists()
    assert await asyncio.to_thread(lambda: len(list((path_b / "orders-0").glob("*.log")))) == 4
