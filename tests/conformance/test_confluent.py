"""confluent-kafka against the cluster: the scenarios for every client."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CLIENT_TIMEOUT_S, CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster

CLIENT = ConfluentClient()


@pytest.mark.core(codec="zstd")
@pytest.mark.gateways(codec="zstd")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_acks_is_read_back(cluster: Cluster, topic: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec="none", acks=acks)


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec, acks=acks)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


@pytest.mark.core
@pytest.mark.gateways
def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)


@pytest.mark.core
def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(ConfluentClient("consumer"), cluster, topic, producer=CLIENT)


@pytest.mark.gateways
def test_a_batch_with_an_invalid_record_is_refused_as_a_whole(cluster: Cluster, topic: str) -> None:
    """librdkafka reports the same error for each message of the batch, also with Apache Kafka."""
    make_topic(cluster.bootstrap, topic, configs={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 500})
    told: dict[bytes | None, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        told[message.value()] = 0 if error is None else error.code()

    for key, value in ((b"k", b"first"), (None, b"second"), (b"k", b"third")):
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    assert told == dict.fromkeys((b"first", b"second", b"third"), KafkaError.INVALID_RECORD)
