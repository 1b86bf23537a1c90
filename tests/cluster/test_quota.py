"""A limit set on the command line is enforced for one busy client, in both directions."""

from __future__ import annotations

import time
from collections import deque

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.kafka.records.batch import iter_batches
from highwater.kafka.records.builder import RecordBatchBuilder
from tests.cluster.runner import Up, run
from tests.support.wire import RawConnection, only

LIMIT = 3_000_000
WARM_UP_S = 2.0
WINDOW_S = 10.0
TOLERANCE = 0.05
IN_FLIGHT = 4
BATCH_BYTES = 64 * 1024
TOPIC = "hot"

SEPARATE_FIRST = pytest.mark.parametrize(
    "up", ["separate", pytest.param("embedded", marks=pytest.mark.full)], indirect=True
)
EMBEDDED_FIRST = pytest.mark.parametrize(
    "up", ["embedded", pytest.param("separate", marks=pytest.mark.full)], indirect=True
)


@SEPARATE_FIRST
def test_produce_limit_holds(up: Up):
    _create_topic(up)
    _set_limit(up, "--produce-bytes-per-second", str(LIMIT))
    batch = _batch()
    throttled = 0
    sent: deque[int] = deque()
    with RawConnection.to(up.bootstrap) as connection:
        acknowledged = _Window()
        while not acknowledged.over:
            while len(sent) < IN_FLIGHT:
                connection.send(_produce(batch), 9)
                sent.append(len(batch))
            reply = connection.receive()
            assert only(only(reply.responses).partition_responses).error_code == 0
            throttled += reply.throttle_time_ms > 0
            acknowledged.add(sent.popleft())
    assert throttled > 0
    assert acknowledged.rate == pytest.approx(LIMIT, rel=TOLERANCE)


@EMBEDDED_FIRST
def test_consume_limit_holds(up: Up):
    _create_topic(up)
    batch = _batch()
    with RawConnection.to(up.bootstrap) as connection:
        for _ in range(int(LIMIT * 1.2 * (WARM_UP_S + WINDOW_S)) // len(batch) + 1):
            reply = connection.ask(_produce(batch), 9)
            assert only(only(reply.responses).partition_responses).error_code == 0
    _set_limit(up, "--consume-bytes-per-second", str(LIMIT))
    offset = 0
    throttled = 0
    with RawConnection.to(up.bootstrap) as connection:
        read = _Window()
        while not read.over:
            reply = connection.ask(_fetch(offset), 12)
            throttled += reply.throttle_time_ms > 0
            data = only(only(reply.responses).partitions)
            assert data.error_code == 0
            for found in iter_batches(data.records):
                offset = found.last_offset + 1
            read.add(len(data.records))
    assert throttled > 0
    assert read.rate == pytest.approx(LIMIT, rel=TOLERANCE)


@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_limit_can_be_removed(up: Up):
    _create_topic(up)
    _set_limit(up, "--produce-bytes-per-second", "100000")
    _set_limit(up, "--produce-bytes-per-second", "none")
    batch = _batch()
    began = time.monotonic()
    with RawConnection.to(up.bootstrap) as connection:
        for _ in range(50):
            reply = connection.ask(_produce(batch), 9)
            assert reply.throttle_time_ms == 0
    assert time.monotonic() - began < 5  # Under the limit it would take half a minute.


class _Window:
    """Bytes per second between the warm-up's end and WINDOW_S later."""

    def __init__(self) -> None:
        self._from = time.monotonic() + WARM_UP_S
        self._bytes = 0
        self._last = self._from

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._from + WINDOW_S

    def add(self, nbytes: int) -> None:
        now = time.monotonic()
        if self._from <= now:
            self._bytes += nbytes
            self._last = now

    @property
    def rate(self) -> float:
        return self._bytes / max(WINDOW_S, self._last - self._from)


def _create_topic(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=1, replication_factor=1, configs={})


def _set_limit(up: Up, flag: str, value: str) -> None:
    done = run("quota", "set", flag, value, "--data-dir", str(up.data_dir))
    assert done.returncode == 0, done.stderr
    time.sleep(1.5)  # Nodes get their shares once a second.


def _batch() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(key=None, value=bytes(BATCH_BYTES), timestamp_ms=int(time.time() * 1000))
    return builder.build()


def _produce(batch: bytes) -> ProduceRequest:
    part = ProduceRequestPartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=1,
        timeout_ms=10_000,
        topic_data=[ProduceRequestTopicProduceData(name=TOPIC, partition_data=[part])],
    )


def _fetch(offset: int) -> FetchRequest:
    part = FetchRequestFetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchRequestFetchTopic(topic=TOPIC, partitions=[part])],
    )
