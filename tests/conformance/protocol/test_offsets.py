"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import time
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestOffsetForLeaderPartition,
    OffsetForLeaderEpochRequestOffsetForLeaderTopic,
)
from highwater.kafka.records.compression import Compression
from tests.conformance.protocol.requests import batch, list_offset, now_ms, produce
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


@pytest.mark.core(version=9)
@pytest.mark.parametrize("version", range(1, 10))
def test_the_ends_of_the_log(connection: RawConnection, made_topic: str, version: int) -> None:
    for end in (EARLIEST, LATEST):
        part = list_offset(connection, made_topic, end, version=version)
        assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.NONE, 0, -1)
    produce(connection, made_topic, batch([b"a", b"b"]))
    earliest = list_offset(connection, made_topic, EARLIEST, version=version)
    latest = list_offset(connection, made_topic, LATEST, version=version)
    assert (earliest.offset, latest.offset) == (0, 2)
    if version >= 4:
        assert latest.leader_epoch == 0


@pytest.mark.core(codec=Compression.ZSTD)
@pytest.mark.parametrize("codec", list(Compression))
def test_the_first_record_at_or_after_a_timestamp(
    connection: RawConnection, made_topic: str, codec: Compression
) -> None:
    start = now_ms() - 1_000_000
    for first in (0, 4):
        stamps = [start + 10 * index for index in range(first, first + 4)]
        produce(
            connection,
            made_topic,
            batch([b"%d" % stamp for stamp in stamps], timestamps=stamps, compression=codec),
        )
    for asked, offset in [(0, 0), (start, 0), (start + 11, 2), (start + 30, 3), (start + 61, 7)]:
        part = list_offset(connection, made_topic, asked)
        assert (part.error_code, part.offset) == (ErrorCode.NONE, offset)
        assert part.timestamp == start + 10 * offset
    none = list_offset(connection, made_topic, start + 71)
    assert (none.error_code, none.offset, none.timestamp) == (ErrorCode.NONE, -1, -1)


def test_decreasing_timestamps(connection: RawConnection, made_topic: str) -> None:
    start = now_ms() - 1_000_000
    produce(connection, made_topic, batch([b"a"], timestamps=[start + 50]))
    produce(connection, made_topic, batch([b"b", b"c"], timestamps=[start + 20, start + 10]))
    produce(connection, made_topic, batch([b"d"], timestamps=[start + 90]))
    assert list_offset(connection, made_topic, start + 15).offset == 0
    assert list_offset(connection, made_topic, start + 60).offset == 3


@pytest.mark.parametrize("version", [7, 8, 9, 10, 11])
def test_the_largest_timestamp(connection: RawConnection, made_topic: str, version: int) -> None:
    part = list_offset(connection, made_topic, MAX_TIMESTAMP, version=version)
    assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.NONE, -1, -1)
    start = now_ms() - 1_000_000
    produce(connection, made_topic, batch([b"a", b"b"], timestamps=[start, start + 9]))
    produce(connection, made_topic, batch([b"c"], timestamps=[start + 5]))
    part = list_offset(connection, made_topic, MAX_TIMESTAMP, version=version)
    assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.NONE, 1, start + 9)


def test_log_append_times_are_those_of_batches(
    cluster: Cluster, connection: RawConnection, topic: str
) -> None:
    make_topic(cluster.bootstrap, topic, configs={"message.timestamp.type": "LogAppendTime"})
    stamps: list[int] = []
    for codec in (Compression.NONE, Compression.GZIP):
        sent = batch([b"a", b"b", b"c"], timestamps=[7, 9, 8], compression=codec)
        stamps.append(produce(connection, topic, sent).log_append_time_ms)
        time.sleep(0.01)
    assert stamps[0] < stamps[1]
    for asked, offset in ((8, 0), (stamps[0], 0), (stamps[0] + 1, 3), (stamps[1], 3)):
        part = list_offset(connection, topic, asked)
        assert (part.offset, part.timestamp) == (offset, stamps[offset // 3])
    assert list_offset(connection, topic, stamps[1] + 1).offset == -1
    part = list_offset(connection, topic, MAX_TIMESTAMP, version=7)
    assert (part.offset, part.timestamp) == (3, stamps[1])


def test_the_earliest_local_offset(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, batch([b"a"]))
    part = list_offset(connection, made_topic, EARLIEST_LOCAL, version=8)
    assert (part.error_code, part.offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize(("timestamp", "version"), [(-5, 9), (-6, 11)])
def test_without_a_tier_no_offset_is_in_it(
    connection: RawConnection, made_topic: str, timestamp: int, version: int
) -> None:
    produce(connection, made_topic, batch([b"a"]))
    part = list_offset(connection, made_topic, timestamp, version=version)
    assert (part.error_code, part.offset, part.timestamp) == (ErrorCode.NONE, -1, -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-6, 10), (-77, 7)])
def test_a_special_timestamp_before_its_version(
    connection: RawConnection, made_topic: str, timestamp: int, version: int
) -> None:
    part = list_offset(connection, made_topic, timestamp, version=version)
    assert part.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_unknown_partition(connection: RawConnection, made_topic: str) -> None:
    part = list_offset(connection, made_topic, LATEST, partition=9)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_future_leader_epoch(connection: RawConnection, made_topic: str) -> None:
    part = list_offset(connection, made_topic, LATEST, current_leader_epoch=1_000)
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def _end_of_epoch(
    connection: RawConnection,
    topic: str,
    epoch: int,
    *,
    partition: int = 0,
    current_leader_epoch: int = -1,
    version: int = 4,
) -> Any:
    part = OffsetForLeaderEpochRequestOffsetForLeaderPartition(
        partition=partition, leader_epoch=epoch, current_leader_epoch=current_leader_epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[OffsetForLeaderEpochRequestOffsetForLeaderTopic(topic=topic, partitions=[part])],
    )
    return only(only(connection.ask(request, version).topics).partitions)


@pytest.mark.core(version=4)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_the_leader_epoch(
    connection: RawConnection, made_topic: str, version: int
) -> None:
    produce(connection, made_topic, batch([b"a", b"b"]))
    part = _end_of_epoch(connection, made_topic, 0, version=version)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (ErrorCode.NONE, 0, 2)


def test_unknown_epochs(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, batch([b"a"]))
    part = _end_of_epoch(connection, made_topic, 5)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (ErrorCode.NONE, -1, -1)
    part = _end_of_epoch(connection, made_topic, 0, current_leader_epoch=1_000)
    assert part.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    part = _end_of_epoch(connection, made_topic, 0, partition=9)
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
