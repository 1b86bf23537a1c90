"""Requests of the raw protocol tests for one topic, and the parts of replies that they check."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.kafka.records.batch import RecordBatchView, iter_batches
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression
from highwater.model.ids import NO_TOPIC_ID
from tests.support.wire import TIMEOUT_S, RawConnection, only

PRODUCE_VERSION = 9
FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
BY_ID_FROM = 13
"""The first versions of Produce and Fetch that name topics by id."""

_TIMEOUT_MS = 10_000


def now_ms() -> int:
    """The wall clock in ms since the epoch, as in records."""
    return int(time.time() * 1000)


def batch(
    values: Sequence[bytes],
    *,
    timestamps: Sequence[int] | None = None,
    compression: int = Compression.NONE,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    control: bool = False,
    key: bytes | None = b"key",
) -> bytes:
    """Builds a record batch; `producer` is (producer id, epoch)."""
    builder = RecordBatchBuilder(
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        control=control,
    )
    stamps = timestamps or [now_ms()] * len(values)
    for value, timestamp in zip(values, stamps, strict=True):
        builder.append(key=key, value=value, timestamp_ms=timestamp)
    return builder.build()


def topic_id(connection: RawConnection, topic: str) -> bytes:
    """The id of an existing topic."""
    named = MetadataRequestMetadataRequestTopic(name=topic)
    found = only(connection.ask(MetadataRequest(topics=[named]), 12).topics)
    assert found.error_code == ErrorCode.NONE
    known: bytes = found.topic_id
    return known


def produce_request(
    topic: str, batches: dict[int, bytes | None], *, acks: int = -1, by_id: bytes = NO_TOPIC_ID
) -> ProduceRequest:
    """One Produce with one record set for each partition; `by_id` is for versions with ids."""
    parts = [
        ProduceRequestPartitionProduceData(index=index, records=records)
        for index, records in batches.items()
    ]
    return ProduceRequest(
        acks=acks,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[ProduceRequestTopicProduceData(topic, by_id, parts)],
    )


def produce(
    connection: RawConnection,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = PRODUCE_VERSION,
) -> Any:
    """Produces to one partition and returns its part of the reply."""
    by_id = topic_id(connection, topic) if version >= BY_ID_FROM else NO_TOPIC_ID
    request = produce_request(topic, {partition: records}, acks=acks, by_id=by_id)
    reply = connection.ask(request, version)
    return only(only(reply.responses).partition_responses)


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
    rack_id: str = "",
    by_id: bytes = NO_TOPIC_ID,
) -> FetchRequest:
    """A full fetch without a session; `by_id` is for versions with ids."""
    parts = [
        FetchRequestFetchPartition(
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchRequestFetchTopic(topic, by_id, parts)],
        rack_id=rack_id,
    )


def fetch(
    connection: RawConnection,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    version: int = FETCH_VERSION,
    **settings: Any,
) -> Any:
    """Fetches one partition and returns its part of the reply."""
    if version >= BY_ID_FROM:
        settings["by_id"] = topic_id(connection, topic)
    reply = connection.ask(fetch_request(topic, {partition: offset}, **settings), version)
    assert reply.error_code == 0
    return only(only(reply.responses).partitions)


def batches_of(part: Any) -> list[RecordBatchView]:
    """The whole batches of a fetched partition, with checked CRCs; empty without records."""
    views = list(iter_batches(part.records or b""))
    assert all(view.crc_ok() for view in views)
    return views


def list_offset(
    connection: RawConnection,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    version: int = LIST_OFFSETS_VERSION,
    current_leader_epoch: int = -1,
    isolation_level: int = 0,
) -> Any:
    """Asks for one timestamp (or -1 latest, -2 earliest, ...) and returns the partition's part."""
    part = ListOffsetsRequestListOffsetsPartition(
        partition_index=partition,
        timestamp=timestamp,
        current_leader_epoch=current_leader_epoch,
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequestListOffsetsTopic(name=topic, partitions=[part])],
    )
    return only(only(connection.ask(request, version).topics).partitions)


def init_producer(connection: RawConnection) -> tuple[int, int]:
    """Gets a producer id without a transactional id; returns (producer id, epoch)."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + TIMEOUT_S
    reply = connection.ask(request, 4)
    # A broker that has just started may not have a block of ids yet.
    while reply.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        reply = connection.ask(request, 4)
    assert reply.error_code == ErrorCode.NONE
    return reply.producer_id, reply.producer_epoch
