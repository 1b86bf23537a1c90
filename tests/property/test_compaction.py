"""Random logs, compacted repeatedly: a reader of the whole log always gets the same last values."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from highwater.kafka.records.batch import DELETE_HORIZON_BIT, RecordBatchView
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.record import Record, read_records
from highwater.partition.storage.cleaning.cleaned_transactions import CleanedTransactions
from highwater.partition.storage.cleaning.compaction import (
    ActiveProducers,
    CleaningReport,
    CleaningRules,
    OffsetMap,
    clean,
)

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(min_size=1, max_size=4))
RETENTION_MS = 1_000
LIMIT = 1 << 20


def records_in(data: bytes) -> list[Record]:
    return list(read_records(view(data), LIMIT))


def view(data: bytes) -> RecordBatchView:
    return RecordBatchView(data, 0, len(data))


class CompactedLog(RuleBasedStateMachine):
    """`segments` is the log: lists of batches. `written` is every batch that it ever had."""

    @initialize()
    def start(self):
        self.segments: list[list[bytes]] = [[]]
        self.written: dict[int, Record] = {}
        self.end = 0
        self.first_dirty = 0
        self.now_ms = 1_000_000
        self.met: dict[int, int] = {}
        """Offset of a tombstone -> when a pass first met it."""
        self.producers: dict[int, int] = {}

    @rule(
        records=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
        codec=st.sampled_from([0, 0, 1, 4]),
        producer=st.sampled_from([-1, 5, 6]),
        stamped=st.booleans(),
    )
    def append(self, records, codec, producer, stamped):
        builder = RecordBatchBuilder(
            base_offset=self.end,
            compression=codec,
            leader_epoch=2,
            producer_id=producer,
            base_sequence=self.end if producer >= 0 else -1,
            log_append_time_ms=self.now_ms if stamped else None,
        )
        for number, (key, value) in enumerate(records):
            builder.append(key=key, value=value, timestamp_ms=self.now_ms - number)
        data = builder.build()
        self.segments[-1].append(data)
        self.written.update((record.offset, record) for record in records_in(data))
        self.end += len(records)
        if producer >= 0:
            self.producers[producer] = self.end - 1

    @rule()
    def roll(self):
        if self.segments[-1]:
            self.segments.append([])

    @rule(ms=st.sampled_from([1, 400, 1_001]))
    def wait(self, ms):
        self.now_ms += ms

    @rule(keys_max=st.sampled_from([4, 6, 100]), together=st.integers(1, 3))
    def compact(self, keys_max, together):
        sealed, active = self.segments[:-1], self.segments[-1]
        rules = CleaningRules(now_ms=self.now_ms, delete_retention_ms=RETENTION_MS)
        offsets = OffsetMap(keys_max)
        for data in (data for segment in sealed for data in segment):
            if view(data).last_offset >= self.first_dirty and not offsets.add(view(data), rules):
                break
        taken = [s for s in sealed if view(s[0]).base_offset <= offsets.latest]
        left = sealed[len(taken) :]
        cleaned, report = [], CleaningReport()
        for first in range(0, len(taken), together):
            group = [data for segment in taken[first : first + together] for data in segment]
            producers = ActiveProducers(last_offsets=self.producers, marked_epochs={})
            none = CleanedTransactions(())
            batches = clean(map(view, group), offsets, rules, producers, report, none)
            file = [bytes(data) for data in batches]
            assert view(file[-1]).last_offset == view(group[-1]).last_offset
            cleaned.append(file)
        self.segments = [*cleaned, *left, active]
        self.first_dirty = max(self.first_dirty, offsets.latest + 1)
        seen = [record for segment in cleaned for data in segment for record in records_in(data)]
        known = [record for record in seen if record.offset <= offsets.latest]
        assert len({record.key for record in known}) == len(known), "one record a key"
        for record in known:
            if record.value is None:
                self.met.setdefault(record.offset, self.now_ms)
        assert report.bytes_written == sum(len(data) for file in cleaned for data in file)

    @invariant()
    def readers_end_up_with_the_same_values(self):
        if not hasattr(self, "segments"):
            return
        batches = [data for segment in self.segments for data in segment]
        present = [record for data in batches for record in records_in(data)]
        assert all(view(data).crc_ok() for data in batches)
        assert [r.offset for r in present] == sorted({r.offset for r in present})
        assert all(self.written[record.offset] == record for record in present)
        newest = {record.key: record for record in self.written.values()}
        left = {record.key: record for record in present}
        for key, record in newest.items():
            if record.value is not None:
                assert left[key] == record
            elif key in left:
                assert left[key] == record, "an older value has come back"
            else:
                assert self.now_ms - self.met[record.offset] >= RETENTION_MS

    @invariant()
    def headers_tell_what_followers_and_producers_need(self):
        if not hasattr(self, "segments"):
            return
        batches = [view(data) for segment in self.segments for data in segment]
        ends = {b.producer_id: b.last_offset for b in batches if b.producer_id >= 0}
        assert ends == self.producers
        assert {batch.leader_epoch for batch in batches} <= {2}
        for batch in batches:
            if batch.attributes & DELETE_HORIZON_BIT:
                assert batch.base_timestamp <= self.now_ms + RETENTION_MS


TestCompactedLog = CompactedLog.TestCase
TestCompactedLog.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
