import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from highwater.partition.coordinator.snapshot import (
    VERSION,
    FileSnapshotStore,
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock
from tests.unit.partition.coordinator.counter import COUNTERS, MAGIC, Counts
from tests.unit.partition.coordinator.memory_log import TOPIC_ID, place_of


def encoded(count: int) -> bytes:
    state = Counts({f"{n}": n for n in range(count)})
    return encode_snapshot(state, COUNTERS.codec, MAGIC, last_epoch=7, offset=99, place=place_of(3))


def test_snapshot_holds_the_state_its_epoch_and_its_offset():
    snapshot = decode_snapshot(encoded(2), MAGIC)
    assert (snapshot.last_epoch, snapshot.offset, snapshot.record_count) == (7, 99, 2)
    assert (snapshot.topic_id, snapshot.partition) == (TOPIC_ID, 3)
    records = [COUNTERS.codec.decode(*encoded) for _, encoded in snapshot.records()]
    assert records == [("0", 0), ("1", 1)]


def test_layout_by_example():
    data = encoded(1)
    assert data[:6].hex() == "485743540004"
    assert data[10:30].hex() == "00000007" + "0000000000000063" + "0000000000000001"
    assert data[30:50] == b"consumer offsets" + b"\0\0\0\3"
    assert data[50:].hex() == "ff" * 10 + "00000003" + "000130" + "00000008" + "0000000000000000"


def test_a_snapshot_of_another_coordinator_is_none():
    with pytest.raises(SnapshotError, match="not a snapshot of this version"):
        decode_snapshot(encoded(1), b"HWGS")


def test_every_flipped_byte_and_every_cut_is_noticed():
    data = encoded(3)
    for index in range(len(data)):
        broken = bytearray(data)
        broken[index] ^= 0x41
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(broken), MAGIC)
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:index], MAGIC)


def test_wrong_lengths_under_a_right_checksum():
    import struct

    from crc32c import crc32c

    def seal(body: bytes) -> bytes:
        return struct.pack(">4shI", MAGIC, VERSION, crc32c(body)) + body

    head = struct.pack(">iqq16si", 1, 2, 1, TOPIC_ID, 0)
    producer = bytes(10)
    for payload in (b"", b"\0\0\0\5abc", b"\xff\xff\xff\xff", bytes(8) + b"more"):
        with pytest.raises(SnapshotError):
            list(decode_snapshot(seal(head + producer + payload), MAGIC).records())
        with pytest.raises(SnapshotError):
            list(decode_snapshot(seal(head + payload), MAGIC).records())


def test_file_is_replaced_whole(tmp_path):
    store, here = FileSnapshotStore("count-snapshot"), place_of(3, str(tmp_path))
    assert store.load(here) is None
    store.save(here, b"one")
    store.save(here, b"two")
    assert store.load(here) == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["count-snapshot"]


def test_a_file_that_may_lack_tombstones_is_too_old(tmp_path):
    store = FileSnapshotStore("count-snapshot")
    here = replace(place_of(3, str(tmp_path)), snapshot_age_ms_max=60_000)
    store.save(here, b"young")
    assert store.load(here) == b"young"
    written_s = time.time() - 61
    os.utime(tmp_path / "count-snapshot", (written_s, written_s))
    assert store.load(here) is None
    assert store.load(replace(here, snapshot_age_ms_max=None)) == b"young"


def test_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    store, here = FileSnapshotStore("count-snapshot"), place_of(3, str(tmp_path))
    store.save(here, b"one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(here, b"two")
    assert store.load(here) == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["count-snapshot"]


def test_saves_at_the_same_time_do_not_mix(tmp_path):
    """A thread of an earlier leadership may still write while the next one saves."""
    store, here = FileSnapshotStore("count-snapshot"), place_of(3, str(tmp_path))
    written = [bytes([n]) * 300_000 for n in range(8)]
    with ThreadPoolExecutor(len(written)) as threads:
        list(threads.map(lambda data: store.save(here, data), written, timeout=10))
    assert store.load(here) in written
    assert [path.name for path in tmp_path.iterdir()] == ["count-snapshot"]


def test_the_directory_of_a_deleted_log_is_not_created_again(tmp_path):
    gone = tmp_path / "gone"
    with pytest.raises(FileNotFoundError):
        FileSnapshotStore("count-snapshot").save(place_of(0, str(gone)), b"late")
    assert not gone.exists()


def test_the_log_opens_and_is_deleted_with_the_file_in_its_directory(tmp_path):
    def open_log() -> PartitionLog:
        return PartitionLog.open(
            tmp_path / "t-0",
            topic="t",
            partition=0,
            config=LogConfig(),
            clock=ManualClock(),
            environment=InlineEnvironment(),
        )

    open_log().close(clean=True)
    here = place_of(0, str(tmp_path / "t-0"))
    FileSnapshotStore("count-snapshot").save(here, b"kept")
    log = open_log()
    assert FileSnapshotStore("count-snapshot").load(here) == b"kept"
    log.closing.delete("0" * 32)
    assert FileSnapshotStore("count-snapshot").load(here) is None
