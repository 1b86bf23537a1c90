"""compression.type: what a broker stores of batches in other codecs."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.record import Record, read_records
from tests.conformance.protocol.requests import batch, batches_of, fetch, now_ms, produce
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def records_of(sent: bytes) -> list[Record]:
    return list(read_records(RecordBatchView(sent, 0, len(sent)), 1 << 20))


@pytest.mark.core(config="zstd")
@pytest.mark.parametrize("config", list(_CODECS))
def test_batches_are_stored_in_the_topics_codec(
    cluster: Cluster, connection: RawConnection, topic: str, config: str
) -> None:
    make_topic(cluster.bootstrap, topic, configs={"compression.type": config})
    offset = 0
    for codec in Compression:
        stamps = [now_ms() - 5 * index for index in range(30)]
        values = [b"value %d of %d " % (index, codec) * 9 for index in range(30)]
        sent = batch(values, compression=codec, timestamps=stamps)
        part = produce(connection, topic, sent)
        assert (part.error_code, part.base_offset) == (ErrorCode.NONE, offset)
        view = only(batches_of(fetch(connection, topic, offset)))
        assert view.compression == _CODECS[config]
        assert view.crc_ok()
        assert view.max_timestamp == max(stamps)
        expected = [record._replace(offset=offset + record.offset) for record in records_of(sent)]
        assert list(read_records(view, 1 << 20)) == expected
        if codec == _CODECS[config]:
            assert view.size == len(sent), "a batch that is right stays as it is"
        offset += len(values)


@pytest.mark.parametrize("config", ["zstd", "producer"])
@pytest.mark.parametrize("version", [4, 9, 10])
def test_clients_from_before_zstd_get_its_batches(
    cluster: Cluster, connection: RawConnection, topic: str, version: int, config: str
) -> None:
    """Kafka 4 sends them; Kafka 2.1 to 3.9 refused such fetches from topics of the config "zstd"."""
    make_topic(cluster.bootstrap, topic, configs={"compression.type": config})
    sent = batch([b"value"] * 100, compression=Compression.ZSTD)
    assert produce(connection, topic, sent).error_code == ErrorCode.NONE
    part = fetch(connection, topic, 0, version=version)
    assert part.error_code == ErrorCode.NONE
    assert only(batches_of(part)).compression == Compression.ZSTD


def test_the_size_counts_as_it_came_and_as_it_is_stored(
    cluster: Cluster, connection: RawConnection, topic: str
) -> None:
    configs = {"compression.type": "uncompressed", "max.message.bytes": "1000"}
    make_topic(cluster.bootstrap, topic, configs=configs)
    small = batch([b"x" * 10_000], compression=Compression.GZIP)
    assert produce(connection, topic, small).error_code == ErrorCode.MESSAGE_TOO_LARGE
    make_topic(cluster.bootstrap, topic + "-2", configs={**configs, "compression.type": "gzip"})
    large = batch([b"x" * 10_000])
    assert produce(connection, topic + "-2", large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(connection, topic + "-2", batch([b"x" * 500])).error_code == ErrorCode.NONE


def test_log_append_time_and_another_codec(
    cluster: Cluster, connection: RawConnection, topic: str
) -> None:
    configs = {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"}
    make_topic(cluster.bootstrap, topic, configs=configs)
    part = produce(connection, topic, batch([b"a", b"b"], timestamps=[1, 2]))
    view = only(batches_of(fetch(connection, topic, 0)))
    assert (view.compression, view.crc_ok()) == (Compression.LZ4, True)
    stamps = [record.timestamp for record in read_records(view, 1 << 20)]
    assert stamps == [part.log_append_time_ms] * 2


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_clients_records_keep_their_order(cluster: Cluster, topic: str, idempotent: bool) -> None:
    """With batches of both kinds in flight: the topic's codec, and none."""
    make_topic(cluster.bootstrap, topic, configs={"compression.type": "zstd"})
    bootstrap = {"bootstrap.servers": cluster.bootstrap}
    producer = Producer({**bootstrap, "linger.ms": 0, "enable.idempotence": idempotent})
    for number in range(2000):
        producer.produce(topic, b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer = Consumer({**bootstrap, "group.id": "none", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    while len(values) < 2000:
        values += [message.value() for message in consumer.consume(500, 10)]
    consumer.close()
    assert values == [b"%d" % number for number in range(2000)]
