"""Idempotent produce: sequences by producer id and partition (KIP-98, `ProducerAppendInfo`)."""

from __future__ import annotations

import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
)
from tests.conformance.protocol.requests import (
    batch,
    init_producer,
    list_offset,
    now_ms,
    produce,
)
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

_SEQUENCE_MAX = 2**31 - 1


def _send(
    connection: RawConnection,
    topic: str,
    producer: tuple[int, int],
    sequence: int,
    count: int = 1,
    partition: int = 0,
) -> tuple[int, int]:
    values = [b"%d" % (sequence + index) for index in range(count)]
    records = batch(values, producer=producer, sequence=sequence)
    part = produce(connection, topic, records, partition=partition)
    return part.error_code, part.base_offset


def _end(connection: RawConnection, topic: str) -> int:
    end: int = list_offset(connection, topic, -1).offset
    return end


@pytest.mark.core
def test_producer_ids_are_new(connection: RawConnection) -> None:
    producers = [init_producer(connection) for _ in range(3)]
    assert len({producer_id for producer_id, _ in producers}) == 3
    assert all(producer_id >= 0 and epoch == 0 for producer_id, epoch in producers)


@pytest.mark.core
def test_a_duplicate_gets_the_offset_of_the_first(
    connection: RawConnection, made_topic: str
) -> None:
    producer = init_producer(connection)
    assert _send(connection, made_topic, producer, 0, 3) == (ErrorCode.NONE, 0)
    assert _send(connection, made_topic, producer, 3, 2) == (ErrorCode.NONE, 3)
    assert _send(connection, made_topic, producer, 0, 3) == (ErrorCode.NONE, 0)
    assert _send(connection, made_topic, producer, 3, 2) == (ErrorCode.NONE, 3)
    assert _end(connection, made_topic) == 5


@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_a_duplicate_gets_the_timestamp_of_the_first(
    cluster: Cluster, connection: RawConnection, topic: str, kind: str
) -> None:
    """Kafka answers with the stored batch's largest timestamp, whatever its kind."""
    make_topic(cluster.bootstrap, topic, configs={"message.timestamp.type": kind})
    producer = init_producer(connection)
    stamps = [now_ms() - 5000, now_ms() - 9000]
    records = batch([b"a", b"b"], producer=producer, sequence=0, timestamps=stamps)
    first = produce(connection, topic, records)
    assert first.error_code == ErrorCode.NONE
    assert (first.log_append_time_ms == -1) == (kind == "CreateTime")
    time.sleep(0.05)
    again = produce(connection, topic, records)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert again.log_append_time_ms == (
        stamps[0] if kind == "CreateTime" else first.log_append_time_ms
    )


def test_the_last_five_batches_are_remembered(connection: RawConnection, made_topic: str) -> None:
    producer = init_producer(connection)
    for sequence in range(6):
        assert _send(connection, made_topic, producer, sequence) == (ErrorCode.NONE, sequence)
    assert _send(connection, made_topic, producer, 1) == (ErrorCode.NONE, 1)
    code, _ = _send(connection, made_topic, producer, 0)
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _end(connection, made_topic) == 6


@pytest.mark.parametrize("sequence", [2, 5, _SEQUENCE_MAX])
def test_a_gap(connection: RawConnection, made_topic: str, sequence: int) -> None:
    producer = init_producer(connection)
    assert _send(connection, made_topic, producer, 0) == (ErrorCode.NONE, 0)
    code, _ = _send(connection, made_topic, producer, sequence)
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _send(connection, made_topic, producer, 1) == (ErrorCode.NONE, 1)


def test_partitions_have_sequences_of_their_own(connection: RawConnection, made_topic: str) -> None:
    producer = init_producer(connection)
    assert _send(connection, made_topic, producer, 0, partition=0) == (ErrorCode.NONE, 0)
    assert _send(connection, made_topic, producer, 0, partition=1) == (ErrorCode.NONE, 0)


def test_a_new_epoch_starts_again_and_fences_the_old(
    connection: RawConnection, made_topic: str
) -> None:
    producer_id, epoch = init_producer(connection)
    assert _send(connection, made_topic, (producer_id, epoch), 0) == (ErrorCode.NONE, 0)
    code, _ = _send(connection, made_topic, (producer_id, epoch + 1), 4)
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _send(connection, made_topic, (producer_id, epoch + 1), 0) == (ErrorCode.NONE, 1)
    code, _ = _send(connection, made_topic, (producer_id, epoch), 1)
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap(connection: RawConnection, made_topic: str) -> None:
    producer = init_producer(connection)
    # A producer unknown to the partition may start anywhere: its state may have expired.
    assert _send(connection, made_topic, producer, _SEQUENCE_MAX - 1, 2) == (ErrorCode.NONE, 0)
    assert _send(connection, made_topic, producer, 0) == (ErrorCode.NONE, 2)
    assert _send(connection, made_topic, producer, _SEQUENCE_MAX - 1, 2) == (ErrorCode.NONE, 0)


def test_sequences_wrap_inside_a_batch(connection: RawConnection, made_topic: str) -> None:
    producer = init_producer(connection)
    assert _send(connection, made_topic, producer, _SEQUENCE_MAX, 3) == (ErrorCode.NONE, 0)
    assert _send(connection, made_topic, producer, 2) == (ErrorCode.NONE, 3)


@pytest.mark.core
def test_the_producers_of_a_partition_are_listed(
    connection: RawConnection, made_topic: str
) -> None:
    """DescribeProducers (KIP-664), on the leader of the partition."""
    producer = init_producer(connection)
    assert _send(connection, made_topic, producer, 0, 3)[0] == ErrorCode.NONE
    asked = DescribeProducersRequestTopicRequest(name=made_topic, partition_indexes=[0, 99])
    missing = DescribeProducersRequestTopicRequest(name=f"no-{made_topic}", partition_indexes=[0])
    first, second = connection.ask(DescribeProducersRequest(topics=[asked, missing]), 0).topics
    known, unknown = first.partitions
    assert known.error_code == ErrorCode.NONE
    [state] = known.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (*producer, 2)
    assert abs(state.last_timestamp - now_ms()) < 60_000
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(second.partitions).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
