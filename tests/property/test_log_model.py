"""A partition's log and a list, its model, hold the same after every operation.

The model is the list of batches (base offset, record count, epoch, largest timestamp, producer).
A crash discards a part of what was written since the last flush, as a power cut does; indexes and
checkpoints may be lost with it.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import (
    ManualClock,
    append,
    headers_in,
    make_batch,
    read_all,
    slice_bytes,
)
from tests.support.searches import found_by

CONFIG = LogConfig(
    segment_bytes=3000, index_interval_bytes=256, segment_index_bytes=120, segment_ms=500
)


@dataclass(frozen=True)
class Entry:
    base_offset: int
    count: int
    epoch: int
    timestamps: tuple[int, ...]
    producer: int
    sequence: int
    size: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.directory = self.root / "topic-0"
        self.clock = ManualClock()
        self.model: list[Entry] = []
        self.start = 0
        self.epoch = 0
        self.sequences = {1: 0, 2: 0}
        self.log = self.open(clean=False)

    def open(self, *, clean: bool, recovery_point: int = 0) -> PartitionLog:
        return PartitionLog.open(
            self.directory,
            topic="topic",
            partition=0,
            config=CONFIG,
            clock=self.clock,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
        )

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.root)

    @property
    def end(self) -> int:
        return self.model[-1].next_offset if self.model else self.start

    @rule(
        sizes=st.lists(
            st.tuples(st.integers(1, 3), st.integers(0, 700), st.integers(0, 2)),
            min_size=1,
            max_size=9,
        ),
        step=st.integers(-50, 200),
        new_epoch=st.booleans(),
    )
    def append(self, sizes: list[tuple[int, int, int]], step: int, new_epoch: bool) -> None:
        self.epoch += new_epoch
        batches, entries, offset = [], [], self.end
        for count, length, producer in sizes:
            self.clock.now_ms = max(self.clock.now_ms + step, 1)
            timestamps = tuple(self.clock.now_ms + number for number in range(count))
            sequence = self.sequences.get(producer, -1)
            if producer:
                self.sequences[producer] += count
            batch = make_batch(
                timestamps=timestamps,
                value=b"x" * length,
                producer_id=producer or -1,
                producer_epoch=0 if producer else -1,
                base_sequence=sequence,
            )
            batches.append(batch)
            entries.append(
                Entry(offset, count, self.epoch, timestamps, producer, sequence, len(batch))
            )
            offset += count
        assert append(self.log, *batches, epoch=self.epoch) == [e.base_offset for e in entries]
        self.model += entries

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.durability.flush()
        assert self.log.durability.recovery_point == self.end

    @rule()
    def reopen_clean(self) -> None:
        self.log.close(clean=True)
        self.log = self.open(clean=True)
        assert self.log.recovered_segments == 0

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Unflushed bytes of the last segment are cut or overwritten; indexes may be lost."""
        recovery_point = self.log.durability.recovery_point
        active = self.log.extent.active
        file, size, base = Path(active.file), active.size, active.base_offset
        self.log.close(clean=False)
        durable = sum(
            e.size for e in self.model if base <= e.base_offset and e.next_offset <= recovery_point
        )
        cut = data.draw(st.integers(durable, size), label="cut at")
        garbage = data.draw(st.binary(max_size=80), label="garbage")
        with file.open("r+b") as handle:
            handle.truncate(cut)
            handle.seek(cut)
            handle.write(garbage)
        for suffix in (".index", ".timeindex"):
            for path in self.directory.glob(f"*{suffix}"):
                fate = data.draw(st.sampled_from(["stay", "go", "garble"]), label=path.name)
                if fate == "go":
                    path.unlink()
                elif fate == "garble":
                    path.write_bytes(b"\x7f" * path.stat().st_size)
        if data.draw(st.booleans(), label="epoch checkpoint lost"):
            (self.directory / "leader-epoch-checkpoint").unlink(missing_ok=True)
        position, kept = 0, [e for e in self.model if e.base_offset < base]
        for entry in self.model:
            if entry.base_offset >= base:
                position += entry.size
                if position <= cut:
                    kept.append(entry)
        if not kept or kept[-1].next_offset < self.start:
            kept = []
        self._forget(kept)
        self.log = self.open(clean=False, recovery_point=recovery_point)

    def _forget(self, kept: list[Entry]) -> None:
        self.model = kept
        for producer in (1, 2):
            last = [e for e in kept if e.producer == producer]
            self.sequences[producer] = last[-1].sequence + last[-1].count if last else 0

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end), label="offset")
        kept = [e for e in self.model if e.next_offset <= offset]
        self._forget(kept)
        end = self.log.truncate_to(offset)
        self.start = min(self.start, end) if kept else end
        assert end == self.end == self.log.log_end_offset

    @rule(offset=st.integers(0, 200))
    def start_afresh(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self._forget([])
        self.start = offset

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.end), label="start")
        self.log.deletion.advance_start(self.start)
        first = self.log.extent.all[0].base_offset
        self.model = [e for e in self.model if e.base_offset >= first]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end), label="offset")
        bounds = sorted({e.base_offset for e in self.model} | {self.end})
        end_offset = data.draw(st.sampled_from(bounds), label="end offset")
        max_bytes = data.draw(st.integers(0, 3000), label="max bytes")
        at_least_one = data.draw(st.booleans(), label="min one batch")
        found = self.log.reader.read(
            offset, max_bytes, end_offset=end_offset, min_one_batch=at_least_one
        )
        wanted = [e for e in self.model if e.next_offset > offset and e.next_offset <= end_offset]
        headers = headers_in(slice_bytes(found))
        assert [h.base_offset for h in headers] == [e.base_offset for e in wanted[: len(headers)]]
        size = sum(e.size for e in wanted[: len(headers)])
        assert size <= max_bytes or (at_least_one and len(headers) == 1)
        if not headers:
            assert (
                offset >= end_offset
                or not wanted
                or (not at_least_one and wanted[0].size > max_bytes)
            )
        else:
            assert found is not None
            assert found.base_offset == wanted[0].base_offset

    @rule(timestamp=st.integers(-2000, 4000))
    def find_timestamp(self, timestamp: int) -> None:
        target = self.clock.now_ms + timestamp
        records = [
            (stamp, e.base_offset + number)
            for e in self.model
            for number, stamp in enumerate(e.timestamps)
            if e.base_offset + number >= self.start
        ]
        wanted = next((record for record in records if record[0] >= target), None)
        found = found_by(self.log.search.first_at_or_after(target))
        assert (found and found[:2]) == wanted

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        log = self.log
        assert log.log_start_offset == self.start
        assert log.log_end_offset == self.end
        visible = [e for e in self.model if e.next_offset > self.start]
        assert [(h.base_offset, h.record_count, h.leader_epoch) for h in read_all(log, 900)] == [
            (e.base_offset, e.count, e.epoch) for e in visible
        ]
        assert log.extent.size_bytes == sum(segment.size for segment in log.extent.all)
        assert log.extent.size_bytes == sum(Path(s.file).stat().st_size for s in log.extent.all)
        assert all(segment.size <= CONFIG.segment_bytes for segment in log.extent.all)

    @invariant()
    def epochs_begin_where_batches_say(self) -> None:
        epochs = LeaderEpochCache()
        for entry in self.model:
            epochs.assign(entry.epoch, entry.base_offset)
        epochs.truncate_from_start(self.start)
        epochs.truncate_from_end(self.end)
        in_use = [entry for entry in self.log.epochs.cache.entries() if entry[1] < self.end]
        assert in_use == epochs.entries()

    @invariant()
    def producers_are_those_of_the_batches(self) -> None:
        for producer in (1, 2):
            last = [e for e in self.model if e.producer == producer]
            expected = _sequence_after(last)
            if expected is not None:
                assert _next_sequence(self.log.producers.states, producer) == expected

    @invariant()
    def largest_timestamp_is_found(self) -> None:
        largest = max((max(e.timestamps) for e in self.model), default=-1)
        found = found_by(self.log.search.first_with_largest())
        assert (-1 if found is None else found.timestamp) == largest


def _sequence_after(entries: list[Entry]) -> int | None:
    return entries[-1].sequence + entries[-1].count if entries else None


def _next_sequence(producers: ProducerStates, producer_id: int) -> int | None:
    for entry in producers.entries():
        if entry.producer_id == producer_id:
            return entry.last_sequence + 1
    return None


LogMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
TestLogModel = LogMachine.TestCase
