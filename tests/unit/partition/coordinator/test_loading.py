import pytest

from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.model.ids import TopicId
from highwater.partition.coordinator.loading import LogCutError, UnreadableBatchError, load_shard
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.coordinator.snapshot import encode_snapshot
from tests.unit.partition.coordinator.counter import COUNTERS, MAGIC, Count, Counts
from tests.unit.partition.coordinator.memory_log import (
    TOPIC_ID,
    MemoryLog,
    MemorySnapshots,
    place_of,
)


def count(number: int, value: int) -> Count:
    return Count(f"{number}", value)


def write(log: MemoryLog, *records, extra=(), epoch=1) -> None:
    builder = RecordBatchBuilder()
    for record in records:
        key, value = COUNTERS.codec.encode(record)
        builder.append(key=key, value=value, timestamp_ms=1)
    for key, value in extra:
        builder.append(key=key, value=value, timestamp_ms=1)
    log.append(0, epoch, builder.build(), lambda error, base: None)


async def load(log: MemoryLog, snapshots: MemorySnapshots | None = None):
    log.in_call = True
    shard, report = await load_shard(
        COUNTERS,
        place=place_of(0),
        log=log,
        snapshots=snapshots or MemorySnapshots(),
    )
    return shard.counts.values, report


def new_log() -> MemoryLog:
    return MemoryLog(in_call=True)


def snapshot_of(*records, offset: int, place: LogPlace | None = None) -> MemorySnapshots:
    state = Counts()
    for record in records:
        state.replay(record)
    snapshots = MemorySnapshots()
    snapshots.files[0] = encode_snapshot(
        state,
        COUNTERS.codec,
        MAGIC,
        last_epoch=1,
        offset=offset,
        place=place or place_of(0),
    )
    return snapshots


async def test_empty_log():
    counts, report = await load(new_log())
    assert (counts, report.next_offset) == ({}, 0)


async def test_everything_in_order():
    log = new_log()
    write(log, count(0, 1), count(1, 5))
    write(log, count(0, 2), Count("1", None))
    counts, report = await load(log)
    assert counts == {"0": 2}
    assert (report.next_offset, report.from_log) == (4, 4)


async def test_log_of_many_slices(monkeypatch):
    monkeypatch.setattr("highwater.partition.coordinator.loading.READ_BYTES", 200)
    log = new_log()
    for n in range(20):
        write(log, count(n, n))
    counts, _ = await load(log)
    assert len(counts) == 20
    assert len(log.reads) > 5


async def test_a_snapshot_and_only_the_log_after_it():
    log = new_log()
    write(log, count(0, 1), count(1, 1))
    write(log, count(0, 2), count(1, 2))
    # The snapshot ends inside a batch and has its own values, to tell it from the log.
    snapshots = snapshot_of(count(0, 100), count(1, 100), offset=3)
    counts, report = await load(log, snapshots)
    assert counts == {"0": 100, "1": 2}
    assert (report.from_snapshot, report.from_log, report.next_offset) == (2, 1, 4)
    assert log.reads == [(0, 3)]


@pytest.mark.parametrize("reason", ["torn", "behind the log", "before the log", "bad record"])
async def test_unusable_snapshot_falls_back_to_the_log(reason):
    log = new_log()
    write(log, count(0, 1), count(1, 1))
    snapshots = snapshot_of(count(0, 100), offset=3 if reason == "behind the log" else 1)
    if reason == "torn":
        snapshots.files[0] = snapshots.files[0][:-1]
    if reason == "before the log":
        log.start[0] = 2
        log.batches[0].clear()
        write(log, count(0, 1), count(1, 1))
    if reason == "bad record":
        from struct import pack

        from crc32c import crc32c

        body = pack(">iqq16si", 1, 1, 1, TOPIC_ID, 0) + b"\0\0\0\2\0\1" + bytes(4)
        snapshots.files[0] = pack(">4shI", MAGIC, 3, crc32c(body)) + body
    counts, report = await load(log, snapshots)
    assert counts == {"0": 1, "1": 1}
    assert report.snapshot_problem
    assert report.from_snapshot == 0


@pytest.mark.parametrize("place", [place_of(1), place_of(0, topic_id=TopicId(b"its predecessor!"))])
async def test_snapshot_of_another_log_is_ignored(place):
    log = new_log()
    write(log, count(0, 1), count(1, 1))
    counts, report = await load(log, snapshot_of(count(0, 100), offset=1, place=place))
    assert counts == {"0": 1, "1": 1}
    assert f"partition {place.partition} of topic {place.topic_id.hex()}" in report.snapshot_problem


async def test_records_of_newer_versions_and_markers_are_skipped():
    log = new_log()
    write(log, count(0, 1), extra=[(b"\0\x63", b"?"), (None, b"?")])
    marker = end_transaction_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
    )
    log.append(0, 1, marker, lambda error, base: None)
    write(log, count(1, 1))
    counts, report = await load(log)
    assert counts == {"0": 1, "1": 1}
    assert (report.skipped, report.next_offset) == (1, 5)


async def test_uncommitted_records_are_loaded_too():
    log = new_log()
    write(log, count(0, 1))
    log.hold = True
    write(log, count(0, 2))
    assert log.high_watermark(0) == 1
    counts, report = await load(log)
    assert counts == {"0": 2}
    assert report.next_offset == 2


async def test_a_log_truncated_during_loading():
    log = new_log()
    write(log, count(0, 1))
    log.read = lambda partition, offset, max_bytes: b""
    with pytest.raises(LogCutError, match="nothing at 0"):
        await load(log)

    log = new_log()
    write(log, count(0, 1))
    whole = log.read

    def read_and_lose(partition, offset, max_bytes):
        found = whole(partition, offset, max_bytes)
        log.end[0] = 0
        return found

    log.read = read_and_lose
    with pytest.raises(LogCutError, match="it ends before 1"):
        await load(log)


@pytest.mark.parametrize(("cut_to", "epoch"), [(1, 2), (2, 2), (1, 3)])
async def test_snapshot_of_records_that_another_leader_has_replaced(cut_to, epoch):
    """The log has its offset again, but with a record of another epoch."""
    log = new_log()
    for n in range(3):
        write(log, count(0, n))
    snapshots = snapshot_of(count(0, 100), offset=3)
    del log.batches[0][cut_to:]
    log.end[0] = cut_to
    for n in range(4 - cut_to):
        write(log, count(0, 50 + n), epoch=epoch)
    counts, report = await load(log, snapshots)
    assert counts == {"0": 53 - cut_to}
    assert report.snapshot_problem == f"the record before 3 is of leader epoch {epoch}, not 1"
    assert report.from_snapshot == 0


async def test_snapshot_of_a_former_leadership_that_the_log_still_agrees_with():
    log = new_log()
    for n in range(3):
        write(log, count(0, n))
    snapshots = snapshot_of(count(0, 100), offset=2)
    del log.batches[0][2:]  # Truncated after the snapshot, then written again.
    log.end[0] = 2
    write(log, count(1, 7), epoch=5)
    counts, report = await load(log, snapshots)
    assert counts == {"0": 100, "1": 7}
    assert (report.from_snapshot, report.from_log) == (1, 1)


async def test_snapshot_whose_epoch_the_log_does_not_know():
    log = new_log()
    write(log, count(0, 1))
    log.epoch_before = lambda partition, offset: -1
    counts, report = await load(log, snapshot_of(count(0, 100), offset=1))
    assert counts == {"0": 1}
    assert "leader epoch -1" in report.snapshot_problem


@pytest.mark.parametrize("place", [16, 23, 70])
async def test_corrupt_committed_batch(place):
    log = new_log()
    write(log, count(0, 1))
    write(log, count(0, 2))
    base, data = log.batches[0][1]
    broken = bytearray(data)
    broken[place] ^= 0xFF
    log.batches[0][1] = (base, bytes(broken))
    with pytest.raises(UnreadableBatchError):
        await load(log)
    assert log.rechecked == [(0, 1)], "the log is to see for itself"


async def test_half_a_batch_is_corrupt():
    log = new_log()
    write(log, count(0, 1))
    base, data = log.batches[0][0]
    log.batches[0][0] = (base, data[:-1])
    with pytest.raises(UnreadableBatchError):
        await load(log)
    assert log.rechecked == [(0, 0)]
