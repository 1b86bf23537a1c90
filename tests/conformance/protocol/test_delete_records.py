"""DeleteRecords: which offsets are taken, and what clients see afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
)
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    list_offset,
    produce,
)
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

EARLIEST, LATEST = -2, -1
HIGH_WATERMARK = -1


def delete(
    connection: RawConnection, topic: str, *offsets: tuple[int, int], version: int = 2
) -> list[Any]:
    """The results; `offsets` are (partition, offset)."""
    parts = [DeleteRecordsRequestDeleteRecordsPartition(*one) for one in offsets]
    request = DeleteRecordsRequest([DeleteRecordsRequestDeleteRecordsTopic(topic, parts)], 20_000)
    return list(only(connection.ask(request, version).topics).partitions)


def outcome(
    connection: RawConnection, topic: str, offset: int, version: int = 2
) -> tuple[int, int]:
    """(error code, low watermark) for partition 0."""
    found = only(delete(connection, topic, (0, offset), version=version))
    return found.error_code, found.low_watermark


@pytest.mark.core(version=2)
@pytest.mark.parametrize("version", range(3))
def test_the_log_begins_later(connection: RawConnection, made_topic: str, version: int) -> None:
    produce(connection, made_topic, batch([b"a", b"b", b"c"]))
    produce(connection, made_topic, batch([b"d"]))
    assert outcome(connection, made_topic, 2, version) == (ErrorCode.NONE, 2)
    assert list_offset(connection, made_topic, EARLIEST).offset == 2
    assert list_offset(connection, made_topic, LATEST).offset == 4
    gone = fetch(connection, made_topic, 1)
    assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = fetch(connection, made_topic, 2)
    assert (found.error_code, found.log_start_offset) == (ErrorCode.NONE, 2)
    assert [one.base_offset for one in batches_of(found)] == [0, 3], "whole batches come"
    assert produce(connection, made_topic, batch([b"e"])).log_start_offset == 2


def test_deleting_again_does_nothing(connection: RawConnection, made_topic: str) -> None:
    produce(connection, made_topic, batch([b"a", b"b", b"c"]))
    assert outcome(connection, made_topic, 2) == (ErrorCode.NONE, 2)
    assert outcome(connection, made_topic, 1) == (ErrorCode.NONE, 2)
    assert outcome(connection, made_topic, 0) == (ErrorCode.NONE, 2)
    assert list_offset(connection, made_topic, EARLIEST).offset == 2


def test_up_to_the_high_watermark(connection: RawConnection, made_topic: str) -> None:
    assert outcome(connection, made_topic, HIGH_WATERMARK) == (ErrorCode.NONE, 0)
    produce(connection, made_topic, batch([b"a", b"b"]))
    assert outcome(connection, made_topic, HIGH_WATERMARK) == (ErrorCode.NONE, 2)
    assert list_offset(connection, made_topic, EARLIEST).offset == 2
    assert produce(connection, made_topic, batch([b"c"])).base_offset == 2


@pytest.mark.parametrize("offset", [3, -2, 2**62])
def test_an_offset_out_of_range(connection: RawConnection, made_topic: str, offset: int) -> None:
    produce(connection, made_topic, batch([b"a", b"b"]))
    assert outcome(connection, made_topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert list_offset(connection, made_topic, EARLIEST).offset == 0


def test_compacted_topics(cluster: Cluster, connection: RawConnection, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"cleanup.policy": "compact"})
    produce(connection, topic, batch([b"a"]))
    assert outcome(connection, topic, 1) == (ErrorCode.POLICY_VIOLATION, -1)


def test_several_partitions_and_those_that_are_not_there(
    cluster: Cluster, connection: RawConnection, topic: str
) -> None:
    make_topic(cluster.bootstrap, topic, partitions=2)
    produce(connection, topic, batch([b"a"]))
    found = delete(connection, topic, (0, 1), (1, 1), (7, 0))
    assert {one.partition_index: (one.error_code, one.low_watermark) for one in found} == {
        0: (ErrorCode.NONE, 1),
        1: (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        7: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    }
    assert [one.error_code for one in delete(connection, "no-such-topic", (0, 0))] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
