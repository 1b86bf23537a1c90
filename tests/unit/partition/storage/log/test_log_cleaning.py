"""A log in which one new segment replaces sealed ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import DamagedRecordsError
from highwater.partition.storage.log import log_reader
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import GAPS_MARKER
from highwater.partition.storage.segment.segment import SegmentFactory
from tests.support.compacted_logs import (
    batches_in,
    job_of,
    keyed_batch,
    newest,
    records_in,
    rewritten,
)
from tests.support.log_batches import append, open_log, slice_bytes
from tests.support.searches import found_by

CONFIG = LogConfig(compact=True, index_interval_bytes=200)


class Aborted:
    def __init__(self, end_offset: int) -> None:
        self.end_offset = end_offset
        self.count = 0

    def abort(self) -> None:
        self.count += 1


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    made = open_log(tmp_path / "topic-0", CONFIG)
    for segment in range(3):
        for number in range(10):
            key = b"%d" % (number % 3) if segment < 2 else b"%d of the last" % number
            append(made, keyed_batch([(key, b"%d in %d" % (number, segment))]))
        made.roll()
    append(made, keyed_batch([(b"active", b"1")]))
    return made


def replaced(log: PartitionLog) -> None:
    """Clean the first two segments into one; not safe against crashes."""
    job = job_of(log, segment_bytes=log.extent.all[0].size * 2)
    groups, next_dirty = rewritten(job)
    (group,) = groups
    assert list(group.bases) == [0, 10]
    log.cleaning.mark_gaps()
    for path in Path(log.directory).glob("*.cleaned"):
        path.rename(path.with_suffix(".swap"))
    environment = log._place.environment
    factory = SegmentFactory(
        log.directory, index_bytes=1 << 20, filesystem=environment.filesystem,
        files=environment.files, maps=environment.maps,
    )  # fmt: skip
    log.cleaning.replace_segments(log.extent.all[:2], factory.existing(0, ".swap"))
    log.cleaning.first_dirty = next_dirty


def test_copies_from_a_cleaned_log_are_what_their_places_hold(log: PartitionLog) -> None:
    """Gaps within a segment, at its start, and at its end."""
    replaced(log)
    for forget in (False, True):
        for offset in range(log.log_end_offset):
            for max_bytes in (1, 80, 200, 500, 1 << 20):
                slices = []
                for copied_bytes_max in (0, 1 << 15):
                    if forget:
                        log.extent.positions.clear()
                    found = log.reader.read(
                        offset,
                        max_bytes,
                        end_offset=log.log_end_offset,
                        pass_empty=True,
                        copied_bytes_max=copied_bytes_max,
                    )
                    assert found is not None
                    slices.append((found.segment, found.position, found.length))
                assert slices[0] == slices[1]
                assert found.data == (slice_bytes(found) if found.length <= max_bytes else None)
                assert found.next_offset > max(offset, found.base_offset)


def test_after_cleaning_readers_find_the_newest_records_and_gaps(log: PartitionLog) -> None:
    before = records_in(log)
    replaced(log)
    after = records_in(log)
    assert newest(after) == newest(before)
    assert [record.offset for record in after][:3] == [17, 18, 19]
    assert [segment.base_offset for segment in log.extent.all] == [0, 20, 30]
    assert log.extent.size_bytes == sum(segment.size for segment in log.extent.all)
    for offset in range(log.log_end_offset):
        data = slice_bytes(log.reader.read(offset, 1, end_offset=log.log_end_offset))
        first = int.from_bytes(data[:8], "big")
        assert first == max(offset, 17), "the next batch, for an offset that is gone"
    assert log.reader.read(3, 1 << 20, end_offset=17) is None, "nothing below the end"


@pytest.fixture
def hollow(tmp_path: Path) -> PartitionLog:
    """100 closed segments, each cleaned by itself. Compaction has left one header in each, but a
    record in two of them. The active segment is empty.
    """
    made = open_log(tmp_path / "topic-0", CONFIG)
    for number in range(100):
        key = b"kept %d" % number if number in {40, 90} else b"again and again"
        append(made, keyed_batch([(key, b"%d" % number)]))
        made.roll()
    append(made, keyed_batch([(b"again and again", b"newer"), (b"last", b"")]))
    made.roll()
    groups, _ = rewritten(job_of(made, segment_bytes=1))
    assert len(groups) == 98
    made.cleaning.mark_gaps()
    for path in Path(made.directory).glob("*.cleaned"):
        path.rename(path.with_suffix(""))
    made.close(clean=True)
    again = open_log(tmp_path / "topic-0", CONFIG, clean=True, recovery_point=102)
    assert [s.base_offset for s in again.extent.all if s.size > 61] == [40, 90, 100]
    return again


def consumed(log: PartitionLog, offset: int, end_offset: int) -> tuple[int, int, int] | None:
    """(base offset, next offset, records of its first batch) of the slice that a consumer gets."""
    found = log.reader.read(offset, 1 << 20, end_offset=end_offset, pass_empty=True)
    if found is None:
        return None
    count = int.from_bytes(slice_bytes(found)[57:61])
    return found.base_offset, found.next_offset, count


def test_a_consumer_skips_segments_without_records(hollow: PartitionLog) -> None:
    end = hollow.log_end_offset
    assert consumed(hollow, 0, end) == (40, 41, 1)
    assert consumed(hollow, 40, end) == (40, 41, 1)
    assert consumed(hollow, 41, end) == (90, 91, 1)
    assert consumed(hollow, 95, end) == (100, 102, 2)
    assert consumed(hollow, 0, 30) == (29, 30, 0), "nothing follows what may be read"
    assert consumed(hollow, 0, 41) == (40, 41, 1)
    assert consumed(hollow, 30, 30) is None
    assert hollow.reader.read(0, 100, end_offset=end).next_offset == 1, "a replica needs them all"


def test_one_read_skips_a_limited_number_of_segments(
    hollow: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reader, "EMPTY_SEGMENTS_MAX", 10)
    assert consumed(hollow, 0, 102) == (9, 10, 0)
    assert consumed(hollow, 30, 102) == (39, 40, 0)
    assert consumed(hollow, 31, 102) == (40, 41, 1)


def test_empty_headers_are_returned_if_the_next_batch_is_damaged_or_too_large(
    hollow: PartitionLog,
) -> None:
    found = hollow.reader.read(35, 62, end_offset=102, min_one_batch=False, pass_empty=True)
    assert found is not None
    assert (found.base_offset, found.length) == (39, 61)
    hollow.lost.add(20, 25)
    assert consumed(hollow, 3, 102) == (19, 20, 0)
    with pytest.raises(DamagedRecordsError):
        consumed(hollow, 20, 102)


def test_a_segment_with_several_empty_headers_is_skipped(tmp_path: Path) -> None:
    """The headers stay because each is the newest batch of its producer."""
    log = open_log(tmp_path / "topic-0", CONFIG)
    for producer_id in (*range(5), 99):
        append(log, keyed_batch([(b"a", b"1")], producer_id=producer_id, base_sequence=0))
    log.roll()
    append(log, keyed_batch([(b"b", b"1")]))
    log.roll()
    append(log, keyed_batch([(b"a", b"2")]))
    log.roll()
    rewritten(job_of(log, segment_bytes=1))
    cleaned = Path(log.directory) / "00000000000000000000.log.cleaned"
    assert cleaned.stat().st_size == 6 * 61
    log.cleaning.mark_gaps()
    for path in Path(log.directory).glob("*.cleaned"):
        path.rename(path.with_suffix(""))
    log.close(clean=True)
    log = open_log(tmp_path / "topic-0", CONFIG, clean=True, recovery_point=8)
    assert consumed(log, 0, 8) == (6, 7, 1)
    assert consumed(log, 3, 8) == (6, 7, 1)
    assert consumed(log, 3, 6) == (3, 6, 0)
    assert [batch.record_count for batch in batches_in(log)] == [0] * 6 + [1, 1]


def test_a_reader_that_has_pinned_an_old_segment_can_finish(log: PartitionLog) -> None:
    old = log.reader.read(3, 1 << 20, end_offset=10)
    assert old is not None
    old.segment.pin()
    replaced(log)
    assert old.segment.deleted
    data = os.pread(old.segment.fd, old.length, old.position)
    assert int.from_bytes(data[:8], "big") == 3
    old.segment.unpin()
    assert not old.segment.is_open()


def test_remembered_positions_are_dropped_after_a_cleaning(log: PartitionLog) -> None:
    for offset in range(20):
        log.reader.read(offset, 1, end_offset=log.log_end_offset)
    replaced(log)
    for offset in range(20):
        data = slice_bytes(log.reader.read(offset, 1, end_offset=log.log_end_offset))
        assert int.from_bytes(data[:8], "big") == max(offset, 17)


def test_timestamps_and_truncation_after_a_cleaning(log: PartitionLog) -> None:
    replaced(log)
    assert found_by(log.search.first_with_largest())[:2] == (1_700_000_000_000, 17)
    assert found_by(log.search.first_at_or_after(0)) == (1_700_000_000_000, 17, 0)
    log.cleaning.first_dirty = 28
    log.truncate_to(25)
    assert (log.log_end_offset, log.cleaning.first_dirty) == (25, 25)
    log.truncate_to(18)
    assert [record.offset for record in records_in(log)] == [17]
    log.truncate_to(5)
    assert (log.log_end_offset, batches_in(log)) == (0, []), "it does not end inside a gap"


def test_with_the_marker_recovery_accepts_gaps(log: PartitionLog, tmp_path: Path) -> None:
    assert not log.extent.gaps
    replaced(log)
    assert log.extent.gaps
    before = records_in(log)
    log.close(clean=False)
    assert (tmp_path / "topic-0" / GAPS_MARKER).exists()
    again = open_log(tmp_path / "topic-0", LogConfig(), recovery_point=1)
    assert again.extent.gaps
    assert records_in(again) == before
    assert again.truncated_bytes == 0
    again.close(clean=False)
    (tmp_path / "topic-0" / GAPS_MARKER).unlink()
    cut = open_log(tmp_path / "topic-0", LogConfig(), recovery_point=1)
    assert records_in(cut) != before, "what would become of it otherwise"


def test_spans_and_how_long_they_wait(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(compact=True, min_compaction_lag_ms=1))
    for timestamp in (500, 300, 400):
        append(log, keyed_batch([(b"a", b"1")], timestamp_ms=timestamp))
        log.roll()
    spans = log.cleaning.spans()
    assert [(s.base_offset, s.next_offset, s.max_timestamp) for s in spans] == [
        (0, 1, 500), (1, 2, 300), (2, 3, 400),
    ]  # fmt: skip
    assert all(span.size > 0 for span in spans)
    assert log.cleaning.waiting_since(0, 3) == 300
    assert log.cleaning.waiting_since(2, 3) == 400
    assert log.cleaning.waiting_since(0, 1) == 500
    assert log.cleaning.waiting_since(3, 3) is None


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda log: log.truncate_to(29), 1),
        (lambda log: log.truncate_to(30), 0),
        (lambda log: log.truncate_to(31), 0),
        (lambda log: log.truncate_fully_and_start_at(100), 1),
        (lambda log: log.deletion.advance_start(15), 1),
        (lambda log: log.deletion.advance_start(9), 0),
        (lambda log: log.close(clean=True), 1),
        (lambda log: log.closing.delete("0" * 32), 1),
        (lambda log: log.roll(), 0),
        (lambda log: log.reconfigure(CONFIG), 0),
        (lambda log: log.reconfigure(LogConfig()), 1),
    ],
)
def test_changes_that_abort_a_cleaning(log: PartitionLog, change: object, count: int) -> None:
    cleaning = Aborted(30)
    log.cleaning.running = cleaning
    change(log)  # type: ignore[operator]
    assert cleaning.count == count
    assert (log.cleaning.running is None) == bool(count)
