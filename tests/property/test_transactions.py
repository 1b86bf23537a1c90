"""Random transactions, roles and starts against a model: what a read_committed consumer may see.

One partition with a leader and a follower, on real logs. The model is the list of all batches in the
leader's log with what they belong to. Checked after each step, on both replicas as far as their high
watermarks go: the last stable offset, the aborted transactions of every range, open transactions,
and that no record of an open or aborted transaction is visible (R9, R19, R20). Producers may be silent
for so long that the logs forget them; their aborted records stay hidden all the same.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from highwater.kafka.records.batch import iter_batches
from highwater.partition.replication.follower.batch_runs import split_runs
from highwater.partition.replication.follower.following import _note_producers
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock, append, make_batch, open_log, slice_bytes
from tests.support.transactional_logs import end, write

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
PRODUCERS = st.sampled_from([5, 6, 7])
NOW = 1_700_000_000_000
SILENT_MS = 25 * 3_600_000
"""Longer than `producer.id.expiration.ms`."""


@dataclass(frozen=True)
class Batch:
    """One batch of the model."""

    offset: int
    producer: int = -1
    """-1: of no transaction."""
    marker: str = ""
    """"commit", "abort", or "" for data."""


class TransactionalLog(RuleBasedStateMachine):
    """See the module."""

    @initialize()
    def start(self) -> None:
        self.parent = Path(tempfile.mkdtemp())
        for name in ("leader", "follower"):
            (self.parent / name).mkdir()
        self.clock = ManualClock()
        self.batches: list[Batch] = []
        self.mark = 0
        self.leader = self.opened("leader")
        self.follower = self.opened("follower")

    def opened(self, name: str, *, clean: bool = False, intact: bool = False) -> PartitionLog:
        known = self.mark if hasattr(self, "leader") else 0
        return open_log(
            self.parent / name / "topic-0",
            CONFIG,
            clock=self.clock,
            clean=clean,
            cache_intact=intact,
            high_watermark=known,
        )

    def teardown(self) -> None:
        if hasattr(self, "follower"):
            self.leader.close(clean=False)
            self.follower.close(clean=False)
        if hasattr(self, "parent"):
            shutil.rmtree(self.parent)

    # ---- what happens ----

    @rule(producer=PRODUCERS)
    def transactional(self, producer: int) -> None:
        offset = write(self.leader, producer, timestamp=self.clock.now_ms)
        self.batches.append(Batch(offset, producer))

    @rule()
    def ordinary(self) -> None:
        self.batches.append(Batch(append(self.leader, make_batch(timestamps=(NOW,)))[0]))

    @rule(producer=PRODUCERS, commit=st.booleans())
    def marker(self, producer: int, commit: bool) -> None:
        offset = end(self.leader, producer, commit=commit, timestamp=self.clock.now_ms)
        self.batches.append(Batch(offset, producer, "commit" if commit else "abort"))

    @rule()
    def roll(self) -> None:
        self.leader.roll()

    @rule()
    def silence(self) -> None:
        """All producers expire that have nothing open, and the checkpoints have caught up."""
        self.clock.now_ms += SILENT_MS
        for log in (self.leader, self.follower):
            for _ in log.producers.expire():
                pass

    @rule(most=st.integers(1, 6))
    def replicate(self, most: int) -> None:
        """The follower takes up to so many batches; what both have is committed."""
        at = self.follower.log_end_offset
        wanted = [batch.offset for batch in self.batches if batch.offset >= at][:most]
        while at < self.leader.log_end_offset and wanted:
            found = self.leader.reader.read(at, 1 << 20, end_offset=wanted[-1] + 1)
            if found is None:
                break
            self.take(slice_bytes(found))
            at = self.follower.log_end_offset
        self.commit()

    def take(self, data: bytes) -> None:
        log = self.follower
        runs, unsound = split_runs(
            memoryview(data), offset=log.log_end_offset, epoch=0, epoch_max=0, gaps_end=-1
        )
        assert not unsound
        for run in runs:
            aborted = _note_producers(log, run)
            if aborted is not None:
                log.transactions.before_abort(aborted, run.info)
            run.info.buffers = [memoryview(data)[run.start : run.stop]]
            log.writer.append(run.info)

    def commit(self) -> None:
        self.mark = max(self.mark, self.follower.log_end_offset)
        for log in (self.leader, self.follower):
            log.stored_high_watermark = self.mark

    @precondition(lambda self: self.mark < self.leader.log_end_offset)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Another leader did not have the end of the log."""
        offset = data.draw(st.integers(self.mark, self.leader.log_end_offset))
        self.batches = [batch for batch in self.batches if batch.offset < offset]
        self.leader.truncate_to(offset)

    @rule(how=st.sampled_from(["clean", "killed", "power"]))
    def restart(self, how: str) -> None:
        self.leader.shorten_tail()
        self.leader.close(clean=how == "clean")
        name = Path(self.leader.directory).parent.name
        self.leader = self.opened(name, clean=how == "clean", intact=how == "killed")
        self.leader.stored_high_watermark = self.mark

    @rule()
    def change_places(self) -> None:
        """The follower leads, and what only the other one has is cut off."""
        self.leader.truncate_to(self.follower.log_end_offset)
        self.batches = [b for b in self.batches if b.offset < self.follower.log_end_offset]
        self.leader, self.follower = self.follower, self.leader

    # ---- what must be true ----

    def of_log(self, log: PartitionLog) -> tuple[dict[int, int], list[tuple[int, int, int, str]]]:
        """The model's (open transactions, ended ones as (producer, first, marker, how))."""
        opened: dict[int, int] = {}
        ended: list[tuple[int, int, int, str]] = []
        for batch in self.batches:
            if batch.offset >= log.log_end_offset or batch.producer < 0:
                continue
            if not batch.marker:
                opened.setdefault(batch.producer, batch.offset)
            elif batch.producer in opened:
                first = opened.pop(batch.producer)
                ended.append((batch.producer, first, batch.offset, batch.marker))
        return opened, ended

    @invariant()
    def both_replicas_know_it(self) -> None:
        for log in (self.leader, self.follower) if hasattr(self, "follower") else ():
            opened, ended = self.of_log(log)
            transactions = log.producers.states.transactions
            assert transactions.open == opened
            mark = min(self.mark, log.log_end_offset)
            unstable = [first for _, first, marker, _ in ended if marker >= mark]
            stable = min([mark, *opened.values(), *unstable])
            if not transactions.is_known(mark):
                assert mark < transactions.told_up_to <= log.log_end_offset
                continue
            assert transactions.last_stable_offset(mark) == stable
            self.check_reads(log, stable, ended)

    def check_reads(
        self, log: PartitionLog, stable: int, ended: list[tuple[int, int, int, str]]
    ) -> None:
        aborted = [(p, first, marker) for p, first, marker, how in ended if how == "abort"]
        offset = 0
        while offset < stable:
            found = log.reader.read(offset, 300, end_offset=stable)
            assert found is not None
            seen = log.producers.states.transactions.seen  # As `PartitionReplica.fetch`.
            got = log.transactions.aborted(offset, found.next_offset) if seen else []
            overlapping = [
                (p, first)
                for p, first, marker in aborted
                if first < found.next_offset and marker >= offset
            ]
            assert got == overlapping
            data = slice_bytes(found)
            assert max(batch.last_offset for batch in iter_batches(data)) < stable
            offset = found.next_offset
        visible = {b.offset for b in self.batches if b.offset < stable and not b.marker}
        undecided = {b.offset for b in self.batches if b.producer >= 0 and not b.marker}
        decided = {
            b.offset
            for b in self.batches
            for p, first, marker, _ in ended
            if b.producer == p and first <= b.offset <= marker
        }
        assert not visible & (undecided - decided)


TestTransactionalLog = TransactionalLog.TestCase
TestTransactionalLog.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
