"""We open a log directory that Apache Kafka 4.3.1 wrote; see `kafka_4_3_1/README`."""

import shutil
from pathlib import Path

import pytest

from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.record import Record, read_records
from highwater.model.ids import TopicId
from highwater.partition.core.producers import ACCEPT
from highwater.partition.storage import checkpoint
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.log_directory import DirectoryIdentity, LogDirectory
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import PARTITION_METADATA
from tests.support.log_batches import ManualClock, append, make_batch, read_all, slice_bytes
from tests.support.searches import found_by

WRITTEN = Path(__file__).parent / "kafka_4_3_1"
RECORDS = 2000
FIRST_TIMESTAMP = 1_700_000_000_000
NOW_MS = FIRST_TIMESTAMP + 60_000
"""Producers expire by their records' timestamps."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    shutil.copytree(WRITTEN, tmp_path / "dir")
    return tmp_path / "dir"


def open_log(log_dir: Path, *, clean: bool) -> PartitionLog:
    return PartitionLog.open(
        log_dir / "kafka_wrote-0",
        topic="kafka_wrote",
        partition=0,
        config=LogConfig(index_interval_bytes=1024, segment_bytes=20000),
        clock=ManualClock(NOW_MS),
        clean=clean,
    )


def records_of(log: PartitionLog) -> list[Record]:
    records: list[Record] = []
    offset = 0
    while offset < log.log_end_offset:
        data = slice_bytes(log.reader.read(offset, 5000, end_offset=log.log_end_offset))
        position = 0
        while position < len(data):
            end = position + int.from_bytes(data[position + 8 : position + 12], "big") + 12
            records += read_records(RecordBatchView(data, position, end), 1 << 20)
            position = end
        offset = records[-1].offset + 1
    return records


@pytest.mark.parametrize("clean", [True, False])
def test_every_record_is_there(log_dir: Path, clean: bool) -> None:
    log = open_log(log_dir, clean=clean)
    assert log.recovered_segments == (0 if clean else 3)
    assert log.truncated_bytes == 0
    assert log.log_end_offset == RECORDS
    records = records_of(log)
    assert [record.offset for record in records] == list(range(RECORDS))
    for number, record in enumerate(records):
        n = number % 400
        assert record.key == b"%d" % n
        assert record.value == (b"value-%d " % n) * 2
        assert record.timestamp == FIRST_TIMESTAMP + 10 * n - 7 * (n % 3)


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_epochs_and_producers(log_dir: Path, clean: bool) -> None:
    log = open_log(log_dir, clean=clean)
    assert log.epochs.cache.entries() == [(0, 0)]
    # 3990 - 7 * 0 is the largest timestamp, first reached by the last record of the first producer.
    assert found_by(log.search.first_with_largest())[:2] == (FIRST_TIMESTAMP + 3990, 399)
    records = records_of(log)
    for timestamp in range(FIRST_TIMESTAMP - 5, FIRST_TIMESTAMP + 3991, 333):
        first = next(record for record in records if record.timestamp >= timestamp)
        assert found_by(log.search.first_at_or_after(timestamp)) == (
            first.timestamp,
            first.offset,
            0,
        )
    assert found_by(log.search.first_at_or_after(FIRST_TIMESTAMP + 4000)) is None
    entries = {entry.producer_id: entry for entry in log.producers.states.entries()}
    assert len(entries) == 5
    assert all(entry.last_sequence == 399 for entry in entries.values())
    for producer_id in entries:
        assert log.producers.states.check(producer_id, 0, 400, 400) == ACCEPT


def test_recovery_rebuilds_the_very_index_files_that_kafka_wrote(log_dir: Path) -> None:
    before = {
        path.name: path.read_bytes()
        for path in (log_dir / "kafka_wrote-0").iterdir()
        if path.suffix in {".index", ".timeindex"}
    }
    assert len(before) == 6
    for name in before:
        (log_dir / "kafka_wrote-0" / name).unlink()
    log = open_log(log_dir, clean=False)
    log.close(clean=True)
    after = {name: (log_dir / "kafka_wrote-0" / name).read_bytes() for name in before}
    assert after == before


def test_our_snapshot_of_the_producers_is_kafkas(log_dir: Path) -> None:
    path = log_dir / "kafka_wrote-0" / "00000000000000002000.snapshot"
    kafkas = path.read_bytes()
    path.unlink()
    log = open_log(log_dir, clean=True)
    log.close(clean=True)
    ours = path.read_bytes()
    assert sorted(ours[10 + 46 * n : 56 + 46 * n] for n in range(5)) == sorted(
        kafkas[10 + 46 * n : 56 + 46 * n] for n in range(5)
    )
    assert ours[6:10] == kafkas[6:10]


def test_the_log_goes_on(log_dir: Path) -> None:
    log = open_log(log_dir, clean=True)
    append(log, make_batch(timestamps=(5,)), epoch=1)
    log.close(clean=True)
    log = open_log(log_dir, clean=True)
    assert log.log_end_offset == RECORDS + 1
    assert read_all(log)[-1].leader_epoch == 1


def test_the_directorys_own_files(log_dir: Path) -> None:
    directory = LogDirectory(str(log_dir), FileSystem())
    directory.open()
    assert directory.clean
    assert directory.previous_node_epoch == 13
    assert directory.identity.node_id == 1
    assert len(directory.identity.cluster_id) == 22
    offsets = directory.offsets()
    assert offsets.recovery_points == {("kafka_wrote", 0): RECORDS}
    assert offsets.high_watermarks == {("kafka_wrote", 0): RECORDS}
    assert offsets.log_starts == {}
    assert directory.partitions() == [("kafka_wrote", 0)]
    directory.close()
    again = LogDirectory(str(log_dir), FileSystem())
    again.open()
    assert not again.clean, "the clean-shutdown file must not survive being read"
    again.close()
    assert again.identity != DirectoryIdentity()


def test_partition_metadata_is_kafkas_byte_for_byte(log_dir: Path, tmp_path: Path) -> None:
    path = log_dir / "kafka_wrote-0" / PARTITION_METADATA
    topic_id = checkpoint.read_topic_id(FileSystem(), str(path))
    assert topic_id is not None
    ours = tmp_path / "ours"
    checkpoint.write_topic_id(FileSystem(), str(ours), TopicId(topic_id))
    assert ours.read_bytes() == path.read_bytes()


def test_checkpoints_are_kafkas_byte_for_byte(log_dir: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    checkpoint.write_offsets(FileSystem(), str(ours), {("kafka_wrote", 0): 2000}, durable=True)
    assert ours.read_bytes() == (log_dir / "recovery-point-offset-checkpoint").read_bytes()
    checkpoint.write_epochs(FileSystem(), str(ours), [(0, 0)], durable=False)
    assert ours.read_bytes() == (log_dir / "kafka_wrote-0" / "leader-epoch-checkpoint").read_bytes()
