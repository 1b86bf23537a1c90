"""Batches before and after compaction; tests/property covers whole logs and many passes."""

import tracemalloc
from dataclasses import replace

import pytest
from aiokafka.record.memory_records import MemoryRecords

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import DELETE_HORIZON_BIT, RecordBatchView, iter_batches
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.kafka.records.control import read_end_marker
from highwater.kafka.records.record import read_records
from highwater.partition.storage.cleaning.cleaned_transactions import CleanedTransactions
from highwater.partition.storage.cleaning.cleaner import BYTES_PER_KEY
from highwater.partition.storage.cleaning.compaction import (
    ActiveProducers,
    CleaningReport,
    CleaningRules,
    OffsetMap,
    clean,
    clean_batch,
)

DAY_MS = 86_400_000
RULES = CleaningRules(now_ms=5_000, delete_retention_ms=DAY_MS)


def batch_of(*records, base=0, **spec):
    """A batch of (key, value) records, a millisecond apart."""
    builder = RecordBatchBuilder(base_offset=base, leader_epoch=3, **spec)
    for number, (key, value) in enumerate(records):
        builder.append(key=key, value=value, timestamp_ms=1_000 + number, headers=[("h", b"1")])
    return view(builder.build())


def view(data):
    return RecordBatchView(data, 0, len(data))


@pytest.mark.parametrize("count", [44_000, 90_000])
def test_the_memory_of_a_key_is_as_estimated(count):
    """Measured just after the dict has grown once, and twice."""
    batches = [
        batch_of(*[(b"%d" % key, b"") for key in range(base, base + 1_000)], base=base)
        for base in range(0, count, 1_000)
    ]
    tracemalloc.start()
    try:
        offsets = OffsetMap(count)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for batch in batches:
            assert offsets.add(batch, RULES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(offsets) == count
    assert BYTES_PER_KEY / 3 < (peak - before) / count < BYTES_PER_KEY


def map_of(*batches, rules=RULES):
    offsets = OffsetMap(1_000)
    for batch in batches:
        assert offsets.add(batch, rules)
    return offsets


def records_in(data):
    (batch,) = iter_batches(bytes(data))
    assert batch.crc_ok()
    return [(r.offset, r.key, r.value) for r in read_records(batch, 1 << 20)]


def cleaned(batch, *newer, rules=RULES, keep_header=False):
    offsets = map_of(batch, *newer, rules=rules)
    return clean_batch(batch, offsets, rules, keep_header=keep_header)


def test_map_knows_the_newest_record_of_each_key():
    offsets = map_of(
        batch_of((b"a", b"1"), (b"b", b"1"), (b"a", b"2")),
        batch_of((b"b", None), (None, b"?"), base=3),
    )
    assert [offsets.newest(key) for key in (b"a", b"b", b"c")] == [2, 3, -1]
    assert (len(offsets), offsets.latest) == (2, 4)


def test_map_takes_a_batch_whole_or_not_at_all():
    offsets = OffsetMap(3)
    assert offsets.add(batch_of((b"a", b"1"), (b"b", b"1")), RULES)
    assert not offsets.add(batch_of((b"c", b"1"), (b"d", b"1"), base=2), RULES)
    assert (offsets.newest(b"c"), offsets.latest) == (-1, 1)
    assert offsets.add(batch_of((b"c", b"1"), base=2), RULES)


def test_batch_of_newest_records_keeps_its_bytes():
    batch = batch_of((b"a", b"1"), (b"b", b"1"))
    result = cleaned(batch)
    assert bytes(result.data) == batch.buf
    assert (result.kept, result.dropped) == (2, 0)


@pytest.mark.parametrize("codec", range(5))
def test_older_records_are_dropped_and_others_keep_their_offsets(codec):
    batch = batch_of(
        (b"a", b"1"), (b"b", b"1"), (None, b"?"), (b"c", b"1"), (b"a", b"2"), base=100,
        compression=codec, producer_id=7, producer_epoch=1, base_sequence=40,
    )  # fmt: skip
    result = cleaned(batch, batch_of((b"c", b"2"), base=105))
    assert records_in(result.data) == [(101, b"b", b"1"), (104, b"a", b"2")]
    assert (result.kept, result.dropped) == (2, 3)
    before, after = batch.header(), view(result.data).header()
    same = "base_offset last_offset_delta leader_epoch attributes producer_id base_sequence"
    for field in same.split():
        assert getattr(after, field) == getattr(before, field), field
    assert (after.record_count, after.max_timestamp) == (2, 1_004)
    other = MemoryRecords(bytes(result.data)).next_batch()
    assert other.validate_crc()
    assert [(r.offset, r.timestamp, r.headers) for r in other] == [
        (101, 1_001, [("h", b"1")]),
        (104, 1_004, [("h", b"1")]),
    ]


def test_the_largest_timestamp_is_that_of_what_is_left():
    batch = batch_of((b"a", b"1"), (b"b", b"1"))
    result = cleaned(batch, batch_of((b"b", b"2"), base=2))
    assert view(result.data).max_timestamp == 1_000


def test_time_that_the_broker_has_stamped_stays():
    batch = batch_of((b"a", b"1"), (b"b", None), (b"c", b"1"), log_append_time_ms=77_000)
    result = cleaned(batch, batch_of((b"c", b"2"), base=3))
    (left,) = iter_batches(result.data)
    assert [record.timestamp for record in read_records(left, 1_000)] == [77_000, 77_000]


def test_records_after_the_map_are_kept():
    known, behind = batch_of((b"a", b"1")), batch_of((b"a", b"2"), (b"a", b"3"), base=1)
    result = clean_batch(behind, map_of(known), RULES, keep_header=False)
    assert bytes(result.data) == behind.buf


def test_a_tombstone_is_dropped_after_its_retention_from_the_first_pass():
    batch = batch_of((b"a", None), (b"b", b"1"))
    first = cleaned(batch)
    assert records_in(first.data) == [(0, b"a", None), (1, b"b", b"1")]
    header = view(first.data).header()
    assert header.attributes & DELETE_HORIZON_BIT
    assert header.base_timestamp == 5_000 + DAY_MS
    assert [r.timestamp for r in read_records(view(first.data), 1_000)] == [1_000, 1_001]

    waiting = CleaningRules(now_ms=4_999 + DAY_MS, delete_retention_ms=0)
    second = cleaned(view(first.data), rules=waiting)
    assert bytes(second.data) == bytes(first.data), "its time is not set anew"

    over = CleaningRules(now_ms=5_000 + DAY_MS, delete_retention_ms=DAY_MS)
    third = cleaned(view(first.data), rules=over)
    assert records_in(third.data) == [(1, b"b", b"1")]
    assert [r.timestamp for r in read_records(view(third.data), 1_000)] == [1_001]


def test_a_batch_without_records_is_dropped_unless_its_header_is_needed():
    batch = batch_of((b"a", b"1"), base=10, compression=1, producer_id=9, base_sequence=4)
    newer = batch_of((b"a", b"2"), base=11)
    assert cleaned(batch, newer).data is None
    result = cleaned(batch, newer, keep_header=True)
    header = view(result.data).header()
    assert len(result.data) == 61
    assert records_in(result.data) == []
    assert (header.base_offset, header.record_count, header.producer_id) == (10, 0, 9)
    assert (header.base_sequence, header.leader_epoch, header.max_timestamp) == (4, 3, 1_000)
    again = cleaned(view(result.data), newer, keep_header=True)
    assert bytes(again.data) == bytes(result.data)
    assert cleaned(view(result.data), newer).data is None


def test_a_marker_stays_until_nothing_of_its_transaction_is_left_and_then_its_time():
    marker = view(
        end_transaction_marker(
            commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=6, timestamp_ms=1
        )
    )
    offsets = map_of(batch_of((b"a", b"1"), base=1))

    def pass_over(batch, now_ms, *, discardable=True, keep_header=False):
        rules = replace(RULES, now_ms=now_ms)
        return clean_batch(
            batch, offsets, rules, keep_header=keep_header, discardable=discardable
        ).data

    assert bytes(pass_over(marker, 1_000, discardable=False)) == marker.buf
    waiting = view(bytes(pass_over(marker, 1_000)))
    assert waiting.attributes & DELETE_HORIZON_BIT
    assert waiting.max_timestamp == 1
    assert read_end_marker(waiting.payload, 1) == (True, 6)
    gone_ms = 1_000 + RULES.delete_retention_ms
    assert bytes(pass_over(waiting, gone_ms - 1)) == waiting.buf
    assert bytes(pass_over(waiting, gone_ms, keep_header=True)) == waiting.buf
    assert pass_over(waiting, gone_ms) is None


def test_one_file_keeps_its_end_and_the_last_sequence_of_each_producer():
    batches = [
        batch_of((b"a", b"1"), producer_id=1, base_sequence=0),
        batch_of((b"a", b"2"), base=1, producer_id=2, base_sequence=0),
        batch_of((b"b", b"1"), base=2),
        batch_of((b"a", b"3"), base=3, producer_id=1, base_sequence=1),
    ]
    beyond = batch_of((b"a", b"4"), (b"b", b"2"), base=4)
    report = CleaningReport()
    producers = ActiveProducers(last_offsets={1: 3, 2: 1}, marked_epochs={})
    none = CleanedTransactions(())
    left = list(clean(batches, map_of(*batches, beyond), RULES, producers, report, none))
    assert [(view(b).base_offset, view(b).record_count) for b in left] == [(1, 0), (3, 0)]
    assert (report.records_kept, report.records_dropped) == (0, 4)
    assert report.bytes_read == sum(batch.size for batch in batches)
    assert report.bytes_written == 2 * 61
    producers = ActiveProducers(last_offsets={}, marked_epochs={})
    left = list(clean(batches, map_of(*batches, beyond), RULES, producers, report, none))
    assert [view(b).base_offset for b in left] == [3], "the file says up to where it goes"


def test_unreadable_batches_are_not_cleaned():
    whole = bytearray(batch_of((b"a", b"1"), (b"a", b"2")).buf)
    whole[61] ^= 0x7E  # The length of the first record.
    with pytest.raises(RecordsError):
        OffsetMap(10).add(view(whole), RULES)
    offsets = map_of(batch_of((b"a", b"3"), base=2))
    with pytest.raises(RecordsError):
        clean_batch(view(whole), offsets, RULES, keep_header=False)


def test_a_batch_that_unpacks_to_too_much_is_an_error():
    bomb = batch_of((b"a", bytes(100_000)), compression=1)
    small = CleaningRules(now_ms=0, delete_retention_ms=0, decompressed_bytes_max=1_000)
    with pytest.raises(RecordsError):
        OffsetMap(10).add(bomb, small)
