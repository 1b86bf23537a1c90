import os
import shutil
from pathlib import Path

import pytest

from highwater.partition.core.producer_entry import ProducerEntry, unpacked
from highwater.partition.storage import producer_snapshots
from highwater.partition.storage.errors import CorruptCheckpointError, LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log_life import LogLife

ENTRIES = [
    ProducerEntry(
        producer_id=pid,
        producer_epoch=pid,
        last_sequence=9,
        last_offset=100,
        offset_delta=4,
        timestamp=1_700_000_000_000,
        coordinator_epoch=-1,
        current_txn_first_offset=96,
    )
    for pid in range(3)
]
PACKED = [entry.packed() for entry in ENTRIES]


def test_round_trip(tmp_path: Path) -> None:
    path = producer_snapshots.snapshot_path(str(tmp_path), 101)
    assert path.endswith("/00000000000000000101.snapshot")
    producer_snapshots.write(FileSystem(), path, PACKED)
    assert Path(path).stat().st_size == 10 + 3 * 46
    assert list(unpacked(producer_snapshots.read(FileSystem(), path))) == ENTRIES
    assert producer_snapshots.decode(producer_snapshots.encode([])) == b""


def test_a_snapshot_has_each_producers_newest_batch_and_a_history_has_all() -> None:
    batches = ENTRIES[0].packed() + ENTRIES[1].packed()
    assert producer_snapshots.encode([batches, PACKED[2]]) == producer_snapshots.encode(PACKED[1:])
    history = producer_snapshots.encode_history([batches, PACKED[2]])
    assert list(unpacked(producer_snapshots.decode(history))) == ENTRIES


@pytest.mark.parametrize("position", range(0, 10 + 46, 3))
def test_a_changed_byte_is_found(position: int) -> None:
    data = bytearray(producer_snapshots.encode(PACKED[:1]))
    data[position] ^= 0x40
    with pytest.raises(CorruptCheckpointError):
        producer_snapshots.decode(bytes(data))


@pytest.mark.parametrize("length", [0, 5, 9, 10, 55])
def test_a_cut_file_is_found(length: int) -> None:
    with pytest.raises(CorruptCheckpointError):
        producer_snapshots.decode(producer_snapshots.encode(PACKED[:1])[:length])


def test_offsets_of_a_listing() -> None:
    names = ["00000000000000000101.snapshot", "x.snapshot", "00000000000000000007.snapshot",
             "00000000000000000101.log", "00000000000000000009.snapshot.deleted"]  # fmt: skip
    assert producer_snapshots.offsets(names) == [7, 101]


def test_a_job_keeps_only_the_newest(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000001.log").write_bytes(b"")
    for offset in (5, 30, 7, 100, 9, 8, 120):
        files = FileSystem()
        producer_snapshots.SnapshotJob(files, str(tmp_path), offset, PACKED, life=LogLife()).run()
    names = [path.name for path in tmp_path.iterdir()]
    assert producer_snapshots.offsets(names) == [8, 9, 30, 100, 120]
    assert len(names) == 6
    path = producer_snapshots.snapshot_path(str(tmp_path), 120)
    assert list(unpacked(producer_snapshots.read(FileSystem(), path))) == ENTRIES


def test_a_job_never_writes_into_another_log_of_the_same_name(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    files, life = FileSystem(), LogLife()
    job = producer_snapshots.SnapshotJob(files, str(directory), 5, PACKED, life=life)
    gone = producer_snapshots.SnapshotJob(files, str(directory), 6, PACKED, life=life)
    life.ended = True
    directory.rename(tmp_path / "topic-0.x-delete")
    directory.mkdir()
    job.run()
    assert list(directory.iterdir()) == []
    shutil.rmtree(tmp_path / "topic-0.x-delete")
    gone.run()
    assert list(directory.iterdir()) == []


def test_a_job_that_fails(tmp_path: Path) -> None:
    files = FileSystem()
    job = producer_snapshots.SnapshotJob(files, str(tmp_path), 5, PACKED, life=LogLife())

    def fail(fd: object) -> None:
        raise OSError(5, f"bad sector under {fd}")

    files.fsync = fail
    with pytest.raises(LogDirFailure):
        job.run()
    assert not list(tmp_path.glob("*.snapshot"))


def test_a_living_log_must_not_lose_its_directory(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    job = producer_snapshots.SnapshotJob(FileSystem(), str(directory), 5, PACKED, life=LogLife())
    directory.rmdir()
    with pytest.raises(LogDirFailure, match="topic-0"):
        job.run()


def test_a_snapshot_that_retention_takes_while_others_are_pruned(tmp_path: Path) -> None:
    files = FileSystem()
    for offset in range(producer_snapshots.KEPT + 2):
        producer_snapshots.write(
            files, producer_snapshots.snapshot_path(str(tmp_path), offset), PACKED
        )

    def unlink(name: str, **others: int) -> None:
        (tmp_path / name).rename(tmp_path / f"{name}.deleted")
        os.unlink(name, **others)

    files.unlink = unlink
    producer_snapshots.SnapshotJob(files, str(tmp_path), 90, PACKED, life=LogLife()).run()
    names = [path.name for path in tmp_path.iterdir()]
    assert producer_snapshots.offsets(names) == [3, 4, 5, 6, 90]


@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_log_that_is_cut_meanwhile_gets_no_snapshot(tmp_path: Path, moment: str) -> None:
    files, life = FileSystem(), LogLife()
    job = producer_snapshots.SnapshotJob(files, str(tmp_path), 5, PACKED, life=life)
    rename = files.rename

    def cut(*names: str, **directories: int) -> None:
        life.truncations += 1
        rename(*names, **directories)

    if moment == "before":
        life.truncations += 1
    else:
        files.rename = cut
    job.run()
    assert list(tmp_path.iterdir()) == []
