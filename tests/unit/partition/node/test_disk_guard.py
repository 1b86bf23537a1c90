import asyncio
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.model.ids import TopicId
from highwater.partition.core.disk_marks import DiskMark, DiskState
from highwater.partition.node import disk_guard as module
from highwater.partition.node.disk_guard import DiskGuard
from highwater.partition.node.log_dirs import VolumeSpace, space_of
from highwater.runtime.logging import silent_logger

MIB = 1 << 20
MARK = DiskMark(nbytes=1_000)
TOPIC = TopicId(b"t" * 16)


class World:
    def __init__(self, *, dirs=2, mark=MARK, space=None, paths=None):
        self.full = {}
        self.resumed = []
        self.replicas = [
            SimpleNamespace(log_dir=number % dirs, fetches_nothing=False) for number in range(4)
        ]
        self.internal = set()
        self.free = dict.fromkeys(range(dirs), 10_000)
        self.told = 0
        self.guard = DiskGuard(
            paths or [Path(f"/dir-{number}") for number in range(dirs)],
            mark,
            full=self.full,
            replicas=lambda: [((TOPIC, n), one) for n, one in enumerate(self.replicas)],
            is_online=lambda index: index in self.free,
            resume=self.resumed.append,
            is_internal=lambda key: key[1] in self.internal,
            tell=self.tell,
            log=silent_logger(),
            space=space or self.space,
        )

    def tell(self):
        self.told += 1

    def space(self, path):
        free = self.free[int(path[-1])]
        if free < 0:
            raise OSError("cannot be read")
        return VolumeSpace(total_bytes=100_000, usable_bytes=free)

    def take(self, index, free):
        self.guard.take(index, VolumeSpace(total_bytes=100_000, usable_bytes=free))

    @property
    def held(self):
        return [replica.fetches_nothing for replica in self.replicas]


def test_below_the_first_mark_clients_are_refused_and_fetches_go_on():
    w = World()
    w.take(0, 999)
    assert set(w.full) == {0}
    assert not w.full[0].nothing_passes
    assert w.held == [False] * 4
    w.take(0, 1_100)
    assert not w.full


def test_below_the_second_one_replicas_of_the_directory_fetch_nothing_until_there_is_space():
    w = World()
    w.take(1, 400)
    assert w.full[1].nothing_passes
    assert w.held == [False, True, False, True]
    w.replicas.append(SimpleNamespace(log_dir=1, fetches_nothing=False))
    w.take(1, 300)
    assert w.held[-1]
    assert w.resumed == []
    w.take(1, 600)
    assert not w.full[1].nothing_passes
    assert w.held == [False] * 5
    assert w.resumed == [one for one in w.replicas if one.log_dir == 1]


def test_a_replica_that_moves_to_a_directory_with_space_fetches_again():
    w = World()
    w.take(1, 400)
    w.replicas[1].log_dir = 0
    w.take(0, 5_000)
    assert w.held == [False, False, False, True]
    assert w.resumed == [w.replicas[1]]


def test_the_controller_hears_of_partitions_that_take_nothing_and_only_of_changes():
    w = World()
    w.internal = {3}
    w.take(0, 5_000)
    assert (w.guard.refusing, w.told) == ({}, 0)
    w.take(1, 999)
    assert w.guard.refusing == {TOPIC: (1,)}, "coordinators go on"
    w.take(1, 1_050)
    assert w.told == 1, "the mark's tenth is not reached"
    w.take(1, 400)
    assert (w.guard.refusing, w.told) == ({TOPIC: (1, 3)}, 2)
    w.replicas[0].log_dir = 1
    w.take(0, 5_000)
    assert (w.guard.refusing, w.told) == ({TOPIC: (0, 1, 3)}, 3)
    before = w.guard.refusing
    w.take(1, 1_100)
    assert (w.guard.refusing, w.told) == ({}, 4)
    assert before == {TOPIC: (0, 1, 3)}, "another thread may still read it"


def test_a_part_of_the_volume():
    w = World(mark=DiskMark(part=0.05))
    w.take(0, 4_999)
    assert w.guard.states == {"/dir-0": DiskState.NO_CLIENTS, "/dir-1": DiskState.OPEN}


async def watch(w, seen):
    task = asyncio.create_task(w.guard.run())
    try:
        async with asyncio.timeout(10):
            while not seen():
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_it_looks_again_and_again_at_directories_that_are_online(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.01)
    w = World()
    del w.free[0]
    w.free[1] = 900
    await watch(w, lambda: set(w.full) == {1})
    w.free[1] = -1  # Nothing is known: it stays as it is.
    await watch(w, lambda: True)
    assert set(w.full) == {1}
    w.free[1] = 5_000
    await watch(w, lambda: not w.full)


@pytest.fixture
def small_volume(tmp_path):
    """A file system of 32 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
async def test_a_file_system_that_fills_up(small_volume, monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.01)
    w = World(dirs=1, mark=DiskMark.parse("16MiB"), space=space_of, paths=[small_volume])
    file = small_volume / "file"
    file.write_bytes(bytes(20 * MIB))
    await watch(w, lambda: set(w.full) == {0})
    assert not w.full[0].nothing_passes
    file.write_bytes(bytes(26 * MIB))
    await watch(w, lambda: w.full[0].nothing_passes)
    file.unlink()
    await watch(w, lambda: not w.full)
