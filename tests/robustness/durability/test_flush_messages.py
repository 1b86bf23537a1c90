"""flush.messages: an append that makes a flush due is acknowledged, and visible, only after it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.fetch import FetchPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.model.ids import DEFAULT_INSTANCE, TopicId
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.clock import SystemClock
from tests.unit.hop.sinks import Owner
from tests.unit.partition.data_plane.roles import NODE, lead

TOPIC = TopicId(b"flush-topic-0016")


class Flushes:
    """Flushes that end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[PartitionLog, Callable[[], None]]] = []

    def __call__(self, log: PartitionLog, done: Callable[[], None]) -> None:
        self.waiting.append((log, done))

    def end(self) -> None:
        log, done = self.waiting.pop(0)
        log.durability.flush()
        done()


def make_replica(path: Path, flushes: Flushes, messages: int) -> PartitionReplica:
    log = PartitionLog.open(
        path,
        topic="t",
        partition=0,
        config=LogConfig(flush_messages=messages),
        clock=SystemClock(),
    )
    replica = PartitionReplica(
        node=NODE,
        topic_id=TOPIC,
        topic_name="t",
        partition=0,
        log=log,
        log_dir=0,
        policy=AppendPolicy(),
        clock=SystemClock(),
        on_log_failure=lambda _replica, error: None,
        flush=flushes,
    )
    lead(replica, 0)
    return replica


def append(replica: PartitionReplica, results: list[tuple[list[int], int]]) -> None:
    """Appends one record; the outcome goes to `results` as (base offsets, error)."""
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms=SystemClock().wall_ms(), key=None, value=b"v")

    def heard(offsets: list[int], failures: Mapping[int, Failure] | None) -> None:
        results.append((offsets, failures[0].error_code if failures else 0))

    group = AppendGroup(TOPIC, 0, 0, 1, DEFAULT_INSTANCE, Owner(heard))
    batch = bytearray(builder.build())
    group.batches.append(memoryview(batch))
    group.nbytes = len(batch)
    replica.append(group)


def read(replica: PartitionReplica) -> int:
    """Bytes that a consumer would get from the start."""
    result = replica.fetch(FetchPartition(TOPIC, 0, -1, 0, -1, 1 << 20), 1 << 20, 0, True)
    nbytes = result.nbytes
    result.release()
    return nbytes


def test_neither_acknowledged_nor_visible_before_the_flush(tmp_path: Path) -> None:
    flushes = Flushes()
    results: list[tuple[list[int], int]] = []
    replica = make_replica(tmp_path / "t-0", flushes, messages=1)
    append(replica, results)
    append(replica, results)
    assert results == []
    assert replica.high_watermark == 0
    assert read(replica) == 0
    flushes.end()
    flushes.end()
    assert results == [([0], 0), ([1], 0)]
    assert replica.high_watermark == 2
    assert replica.log.durability.recovery_point == 2


def test_every_second_message_asks_for_a_flush(tmp_path: Path) -> None:
    flushes = Flushes()
    results: list[tuple[list[int], int]] = []
    replica = make_replica(tmp_path / "t-0", flushes, messages=2)
    append(replica, results)
    assert results == [([0], 0)]
    append(replica, results)
    assert len(results) == 1
    flushes.end()
    assert results == [([0], 0), ([1], 0)]
    append(replica, results)
    assert len(results) == 3


def test_a_directory_that_fails_answers_those_who_wait(tmp_path: Path) -> None:
    flushes = Flushes()
    results: list[tuple[list[int], int]] = []
    replica = make_replica(tmp_path / "t-0", flushes, messages=1)
    append(replica, results)
    replica.fail()
    assert results == [([-1], ErrorCode.KAFKA_STORAGE_ERROR)]
    flushes.end()
    assert len(results) == 1
