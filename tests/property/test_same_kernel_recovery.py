"""Recovery on the same kernel finds what a check of every byte finds, and reads far less.

A log is written, rolled, truncated and flushed at random, and its process killed during a write.
One copy is opened as after a power cut that lost nothing, one as after a kill. When the process
ends, the directory's worker may be behind, or finished without having reported it.
"""

import random
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log import producer_tail
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.flush import FlushJob
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock, append, make_batch, read_all
from tests.support.searches import found_by

ENVIRONMENT = InlineEnvironment()
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=200)
PRODUCERS = 3


class Behind(InlineEnvironment):
    """A worker that runs its queued jobs step by step when told to.

    Flushes run at once: the recovery point decides how much one of the copies checks.
    """

    def __init__(self) -> None:
        super().__init__()
        self._steps: deque[Callable[[], None]] = deque()

    def run_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        if isinstance(getattr(work, "__self__", None), FlushJob):
            super().run_later(work, done)
        else:
            self._steps += (work, done)

    def run(self, steps: int) -> None:
        while self._steps and steps:
            self._steps.popleft()()
            steps -= 1


def opened(
    directory: Path,
    *,
    recovery_point: int,
    cache_intact: bool,
    environment: InlineEnvironment = ENVIRONMENT,
) -> PartitionLog:
    return PartitionLog.open(
        directory,
        topic="topic",
        partition=0,
        config=CONFIG,
        clock=ManualClock(50_000),
        recovery_point=recovery_point,
        cache_intact=cache_intact,
        environment=environment,
    )


class Writer:
    """A leader's or follower's log, and the sequences of its producers."""

    def __init__(self, log: PartitionLog, chance: random.Random, worker: Behind) -> None:
        self.worker = worker
        self.log = log
        self.chance = chance
        self.epoch = 0
        self.sequences = [0] * PRODUCERS

    def batch(self) -> bytearray:
        producer = self.chance.randrange(PRODUCERS + 1) - 1
        count = self.chance.randint(1, 3)
        first = self.sequences[producer] if producer >= 0 else -1
        if producer >= 0:
            self.sequences[producer] += count
        return make_batch(
            timestamps=tuple(self.chance.randint(1, 40_000) for _ in range(count)),
            value=b"v" * self.chance.choice((1, 10, 300)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=first,
        )

    def step(self) -> None:
        self.worker.run(self.chance.choice((0, 0, 1, 2, 3, 100)))
        match self.chance.randrange(14):
            case 0:
                self.epoch += 1
                if self.chance.random() < 0.7:
                    self.log.epochs.begin(self.epoch)
            case 1 | 12 | 13:
                self.log.shorten_tail()
            case 2:
                self.log.extent.active.index.flush()
            case 3 if self.log.extent.active.size:
                self.log.roll()
            case 4:
                self.log.durability.flush()
            case 5 if self.log.log_end_offset:
                low = max(0, self.log.log_end_offset - 12)
                self.log.truncate_to(self.chance.randint(low, self.log.log_end_offset))
                self.sequences = [n + 100 for n in self.sequences]
            case _:
                epoch = max(self.epoch, self.log.epochs.cache.latest)
                batches = [self.batch() for _ in range(self.chance.randint(1, 4))]
                append(self.log, *batches, epoch=epoch)


def state(log: PartitionLog) -> dict[str, object]:
    """The batches, and everything derived from them."""
    end = log.log_end_offset
    return {
        "end": (log.log_start_offset, end, log.extent.size_bytes),
        "batches": [(h.base_offset, h.crc) for h in read_all(log, 700)],
        "epochs": log.epochs.cache.entries(),
        "producers": sorted(log.producers.states.entries(), key=repr),
        "segments": [(s.base_offset, s.size) for s in log.extent.all],
        "largest": found_by(log.search.first_with_largest()),
        "timestamps": [found_by(log.search.first_at_or_after(t)) for t in range(0, 40_000, 3000)],
        "index": [list(s.index.entries()) for s in log.extent.all],
        "time index": [list(s.time_index.entries()) for s in log.extent.all[:-1]],
    }


@pytest.mark.timeout(300)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(1, 60), torn=st.integers(0, 400))
def test_both_recoveries_find_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int, torn: int
) -> None:
    root = tmp_path_factory.mktemp("killed")
    chance = random.Random(seed)
    worker = Behind()
    log = opened(root / "topic-0", recovery_point=0, cache_intact=False, environment=worker)
    writer = Writer(log, chance, worker)
    with mock.patch.object(producer_tail, "ENTRIES_MIN", 2):
        for _ in range(steps):
            writer.step()
    recovery_point = log.durability.recovery_point
    before, history = state(log), set(log.producers.states.history())
    next_batch = make_batch(base_offset=log.log_end_offset, value=b"n" * 400)
    path = Path(log.extent.active.file)
    log.close(clean=False)
    with path.open("ab") as file:
        file.write(next_batch[: min(torn, len(next_batch) - 1)])
    shutil.copytree(root / "topic-0", root / "copy" / "topic-0")
    scanned = opened(root / "copy" / "topic-0", recovery_point=recovery_point, cache_intact=False)
    resumed = opened(root / "topic-0", recovery_point=recovery_point, cache_intact=True)
    assert not resumed.damaged
    found = state(resumed)
    assert found == state(scanned)
    for key in ("end", "batches", "index", "largest", "timestamps", "producers", "segments"):
        assert found[key] == before[key], key
    # A snapshot has only a producer's newest batch, so there may be fewer entries, but no others.
    assert set(resumed.producers.states.history()) <= history
    # Only epochs without a record may be dropped.
    epochs = [entry for entry in before["epochs"] if entry[1] < resumed.log_end_offset]  # type: ignore[attr-defined]
    assert found["epochs"] == epochs
    for again in (scanned, resumed):
        append(again, make_batch(timestamps=(50_000,)), epoch=99)
        assert found_by(again.search.first_at_or_after(45_000)) is not None
        again.close(clean=False)
    last = opened(root / "topic-0", recovery_point=recovery_point, cache_intact=True)
    assert last.log_end_offset == resumed.log_end_offset
    assert last.epochs.cache.latest == 99
    last.close(clean=False)
    shutil.rmtree(root)
