"""One pass over real files, in this process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from highwater.kafka.errors import RecordsError
from highwater.kafka.records.batch import RecordBatchView, iter_batches
from highwater.kafka.records.record import read_records
from highwater.partition.storage.cleaning.job import Progress, Report, decode_job, encode_job
from highwater.partition.storage.cleaning.pace import Pace
from highwater.partition.storage.cleaning.rewrite import LogCleaner, MapTooSmallError
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.segment.segment import Segment, SegmentFactory
from tests.support.compacted_logs import Pair, job_of, keyed_batch, rewritten
from tests.support.log_batches import append, open_log

CONFIG = LogConfig(index_interval_bytes=100, compact=True)


def written(directory: Path, *segments: list[list[Pair]], **options: int) -> PartitionLog:
    """A log with a sealed segment per list of batches, and an active one."""
    log = open_log(directory, CONFIG)
    for batches in segments:
        for pairs in batches:
            append(log, keyed_batch(pairs, **options))
        log.roll()
    append(log, keyed_batch([(b"active", b"1")]))
    return log


def cleaned(log: PartitionLog, base: int) -> list[RecordBatchView]:
    path = Path(log.directory) / f"{base:020d}.log.cleaned"
    return list(iter_batches(path.read_bytes()))


def pairs_of(batches: list[RecordBatchView]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for batch in batches for r in read_records(batch, 1 << 20)]


def names(log: PartitionLog) -> set[str]:
    return {path.name for path in Path(log.directory).glob("*.cleaned")}


def test_newest_records_stay_where_they_are(tmp_path: Path) -> None:
    log = written(
        tmp_path / "topic-0",
        [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"c", b"1")]],
        [[(b"b", b"2")], [(b"c", None), (b"d", b"1")]],
    )
    groups, next_dirty = rewritten(job_of(log))
    assert next_dirty == 7
    assert [list(group.bases) for group in groups] == [[0, 4]]
    batches = cleaned(log, 0)
    assert pairs_of(batches) == [
        (2, b"a", b"2"), (4, b"b", b"2"), (5, b"c", None), (6, b"d", b"1"),
    ]  # fmt: skip
    assert [(b.base_offset, b.last_offset) for b in batches] == [(2, 3), (4, 4), (5, 6)]
    old = sum(segment.size for segment in log.extent.all[:-1])
    assert (groups[0].bytes_before, groups[0].bytes_after) == (old, sum(b.size for b in batches))
    assert len(names(log)) == 3


def test_indexes_and_age_of_the_new_file(tmp_path: Path) -> None:
    updates = [[(b"%d" % (n % 7), b"value" * 10)] for n in range(40)]
    log = written(tmp_path / "topic-0", updates[:20], updates[20:])
    os.utime(log.extent.all[0].file, (1_000, 1_000))
    os.utime(log.extent.all[1].file, (2_000, 2_000))
    rewritten(job_of(log))
    factory = SegmentFactory(
        log.directory, index_bytes=1 << 20, filesystem=log._place.environment.filesystem,
        files=log._place.environment.files, maps=log._place.environment.maps,
    )  # fmt: skip
    segment: Segment = factory.existing(0, ".cleaned")
    assert segment.created_ms == 2_000_000
    assert len(segment.index) >= 3
    positions = {b.start: b for b in cleaned(log, 0)}
    for last_offset, position in segment.index.entries():
        assert positions[position].last_offset == last_offset
    assert segment.largest_timestamp() == 1_700_000_000_000


def test_clean_segments_are_not_written_again(tmp_path: Path) -> None:
    log = written(tmp_path / "topic-0", [[(b"a", b"1")]], [[(b"b", b"1")]])
    job = job_of(log, segment_bytes=1)
    assert rewritten(job) == ([], 2)
    assert names(log) == set()


def test_a_map_that_is_full_leaves_the_rest_for_the_next_pass(tmp_path: Path) -> None:
    log = written(
        tmp_path / "topic-0",
        [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2"), (b"c", b"1")]],
        [[(b"d", b"1"), (b"b", b"2")]],
    )
    groups, next_dirty = rewritten(job_of(log, keys_max=4, segment_bytes=1))
    assert (next_dirty, [list(group.bases) for group in groups]) == (4, [[0]])
    assert pairs_of(cleaned(log, 0)) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    log.cleaning.first_dirty = next_dirty
    groups, next_dirty = rewritten(job_of(log, keys_max=4, segment_bytes=1))
    assert (next_dirty, [list(group.bases) for group in groups]) == (6, [[0]])
    assert (2, b"a", b"2") in pairs_of(cleaned(log, 0))
    with pytest.raises(MapTooSmallError, match="2 records"):
        rewritten(job_of(log, keys_max=1))


def test_last_batch_of_a_producer_keeps_its_header(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory, CONFIG)
    append(log, keyed_batch([(b"a", b"1")], producer_id=7, base_sequence=0))
    append(log, keyed_batch([(b"a", b"2"), (b"b", b"2")], producer_id=7, base_sequence=1))
    append(log, keyed_batch([(b"a", b"3")]), keyed_batch([(b"b", b"3")]))
    log.roll()
    groups, _ = rewritten(job_of(log))
    assert len(groups) == 1
    headers = [batch.header() for batch in cleaned(log, 0)]
    assert [(h.base_offset, h.producer_id, h.record_count) for h in headers] == [
        (1, 7, 0), (3, -1, 1), (4, -1, 1),
    ]  # fmt: skip
    assert (headers[0].base_sequence, headers[0].last_offset_delta) == (1, 1)


@pytest.mark.parametrize("codec", range(5))
def test_codecs_are_kept(tmp_path: Path, codec: int) -> None:
    value = b"value" * 40
    log = written(
        tmp_path / "topic-0", [[(b"a", value), (b"b", value)]], [[(b"a", value)]], compression=codec
    )
    rewritten(job_of(log))
    assert pairs_of(cleaned(log, 0)) == [(1, b"b", value), (2, b"a", value)]
    assert {batch.compression for batch in cleaned(log, 0)} == {codec}


@pytest.mark.parametrize("at", [-1, 16, 30])
def test_damage_does_not_get_a_new_checksum(tmp_path: Path, at: int) -> None:
    log = written(tmp_path / "topic-0", [[(b"a", b"1"), (b"b", b"1")]], [[(b"a", b"2")]])
    file = Path(log.extent.all[0].file)
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptLogError):
        rewritten(job_of(log))


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", CONFIG)
    batch = keyed_batch([(b"a", b"1")])
    batch[61] = 0x7F  # The record's length; the test then corrects the checksum.
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    append(log, batch)
    log.roll()
    with pytest.raises(RecordsError):
        rewritten(job_of(log))


def test_a_pass_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.partition.storage.cleaning.rewrite.PROGRESS_BYTES", 100)
    log = written(tmp_path / "topic-0", [[(b"a", b"1" * 90)], [(b"a", b"2" * 90)]])
    told: list[Report] = []
    LogCleaner(job_of(log), told.append).run()
    progress = [report.nbytes for report in told if isinstance(report, Progress)]
    assert len(progress) == 4
    assert progress == sorted(progress)


def test_reading_and_writing_keep_to_the_rate(tmp_path: Path) -> None:
    log = written(tmp_path / "topic-0", [[(b"a", b"1")], [(b"a", b"2")]], [[(b"b", b"v" * 5_000)]])
    slept: list[float] = []
    pace = Pace(1_000, alive=lambda: None, now=lambda: sum(slept), sleep=slept.append)
    told: list[Report] = []
    LogCleaner(job_of(log), told.append, pace=pace).run()
    read = 2 * sum(segment.size for segment in log.extent.all[:-1])  # Once for keys, once to copy.
    new = sum(batch.size for batch in cleaned(log, 0))
    assert sum(slept) == pytest.approx((read + new) / 1_000)


def test_the_jobs_rate_is_the_default(tmp_path: Path) -> None:
    job = replace(job_of(written(tmp_path / "topic-0", [[(b"a", b"1")]])), io_bytes_per_s=5)
    assert decode_job(encode_job(job)) == job
