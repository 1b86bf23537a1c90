"""aiokafka against the cluster: the scenarios for every client."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import (
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
)

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CLIENT_TIMEOUT_S, CODECS
from tests.conformance.clients.aiokafka_client import AiokafkaClient, open_consumer
from tests.conformance.messages import Message
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster

CLIENT = AiokafkaClient()


@pytest.mark.core(codec="zstd")
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
def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)


def test_a_message_that_is_too_large(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(MessageSizeTooLargeError):
        CLIENT.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x" * 5_000)])


def test_an_offset_out_of_range(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)

    async def read_far_beyond() -> None:
        async with open_consumer(cluster.bootstrap, auto_offset_reset="none") as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 1_000)
            await asyncio.wait_for(consumer.getone(), CLIENT_TIMEOUT_S)

    with pytest.raises(OffsetOutOfRangeError):
        asyncio.run(read_far_beyond())


def test_admin(cluster: Cluster, topic: str) -> None:
    async def scenario() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [error for _, error, *_ in made.topic_errors] == [0]
            again = await admin.create_topics([NewTopic(topic, 2, 1)])
            errors = [error for _, error, *_ in again.topic_errors]
            assert errors == [TopicAlreadyExistsError.errno]
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            assert topic in await admin.list_topics()
            await admin.delete_topics([topic])
        finally:
            await admin.close()

    asyncio.run(scenario())


@pytest.mark.core
def test_idempotent_producer(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    values = [f"{index}".encode() for index in range(500)]

    async def send() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, enable_idempotence=True
        ) as producer:
            sent = [await producer.send(topic, value=value, partition=0) for value in values]
            await asyncio.wait_for(asyncio.gather(*sent), CLIENT_TIMEOUT_S)

    asyncio.run(send())
    stored = CLIENT.consume(cluster.bootstrap, topic, partitions=1, count=len(values))
    assert [record.message.value for record in stored] == values
