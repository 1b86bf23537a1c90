"""When snapshots are taken and when not; tests of whole hosts are in test_shard_host."""

import asyncio

from highwater.partition.coordinator.snapshot import decode_snapshot
from highwater.partition.coordinator.snapshotting import SnapshotWriter
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.unit.partition.coordinator.counter import COUNTERS, MAGIC, Counts
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots, place_of
from tests.unit.partition.coordinator.test_loading import count, write
from tests.unit.partition.coordinator.waiting import until


class Fixture:
    """A log with three committed records of epoch 6, and its snapshot writer."""

    def __init__(self) -> None:
        self.log, self.store = MemoryLog(in_call=True), MemorySnapshots()
        self.failures = []
        self.tasks = TaskOwner(lambda name, error: self.failures.append((name, error)))
        self.state = Counts()
        for n in range(3):
            write(self.log, count(n, n), epoch=6)
            self.state.replay(count(n, n))
        self.writer = SnapshotWriter(
            0,
            COUNTERS,
            log=self.log,
            store=self.store,
            tasks=self.tasks,
            logger=silent_logger(),
            bytes_min=100,
        )
        self.writer.loaded(place_of(0), 0)

    async def take(self, at: int) -> None:
        self.writer.take(self.state, lambda tell: tell(at))
        await self.writer.wait()


async def test_due_after_bytes_min_and_the_size_of_the_last_snapshot():
    f = Fixture()
    f.writer.log_grew(99)
    assert not f.writer.due
    f.writer.log_grew(1)
    assert f.writer.due
    await f.take(3)
    size = len(f.store.files[0])
    assert size > 100
    assert not (f.writer.due or f.writer.log_has_grown)
    f.writer.log_grew(size - 1)
    assert f.writer.log_has_grown
    assert not f.writer.due
    f.writer.log_grew(1)
    assert f.writer.due
    f.writer.loaded(place_of(0), 5)
    assert not f.writer.due, "what counts is what lies behind the snapshot that was loaded"


async def test_a_snapshot_has_the_epoch_of_its_last_record():
    f = Fixture()
    write(f.log, count(0, 9), epoch=8)
    await f.take(3)
    snapshot = decode_snapshot(f.store.files[0], MAGIC)
    assert (snapshot.last_epoch, snapshot.offset, snapshot.record_count) == (6, 3, 3)
    f.state.replay(count(0, 9))
    await f.take(4)
    assert decode_snapshot(f.store.files[0], MAGIC).last_epoch == 8


async def test_nothing_above_the_high_watermark_or_of_an_unknown_epoch():
    f = Fixture()
    f.log.committed[0] = 2
    await f.take(3)
    assert f.store.saves == 0
    f.log.start[0] = 2
    await f.take(2)
    assert f.store.saves == 0
    f.log.start[0] = 0
    await f.take(2)
    assert f.store.saves == 1
    assert f.failures == []


async def test_one_at_a_time():
    f = Fixture()
    blocked = asyncio.Event()
    save = f.store.save
    loop = asyncio.get_running_loop()

    def slow_save(place, data):
        asyncio.run_coroutine_threadsafe(blocked.wait(), loop).result(timeout=5)
        save(place, data)

    f.store.save = slow_save
    f.writer.take(f.state, lambda tell: tell(2))
    assert f.writer.saving
    f.writer.log_grew(1_000)
    assert not f.writer.due
    f.writer.take(f.state, lambda tell: tell(3))
    blocked.set()
    await f.writer.wait()
    assert decode_snapshot(f.store.files[0], MAGIC).offset == 2
    assert f.store.saves == 1


async def test_a_failed_save_is_tried_again_later():
    f = Fixture()
    f.store.fail = True
    await f.take(3)
    assert (f.writer.saving, f.failures) == (False, [])
    f.store.fail = False
    await f.take(3)
    assert f.store.saves == 1


async def test_nothing_to_wait_for():
    f = Fixture()
    await asyncio.wait_for(f.writer.wait(), timeout=1)
    await until(lambda: not f.writer.saving)
