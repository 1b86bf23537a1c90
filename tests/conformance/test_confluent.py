"""confluent-kafka against the cluster: the scenarios for every client."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

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


def test_a_running_group_changes_its_protocol_and_back(
    cluster: Cluster, topic: str, group: str
) -> None:
    """KIP-848: members are replaced one after another, and nobody stops reading."""
    make_topic(cluster.bootstrap, topic, partitions=4)
    life = _GroupLife(cluster.bootstrap, topic, group)
    try:
        life.join("old", "classic")
        life.until_shared(["old"])
        assert life.kind() is ConsumerGroupType.CLASSIC
        life.join("new", "consumer")
        life.until_shared(["old", "new"])
        assert life.kind() is ConsumerGroupType.CONSUMER
        life.leave("old")
        life.until_shared(["new"])
        life.join("back", "classic")
        life.until_shared(["new", "back"])
        assert life.kind() is ConsumerGroupType.CONSUMER
        life.leave("new")
        life.until_shared(["back"])
        assert life.kind() is ConsumerGroupType.CLASSIC
        assert life.errors == []
    finally:
        life.close()


class _GroupLife:
    """A group whose members come and go while records are written to its topic of four partitions."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._members: dict[str, Consumer] = {}
        self._written = 0
        self._read: set[int] = set()
        self.errors: list[KafkaError] = []

    def join(self, name: str, protocol: str) -> None:
        self._members[name] = member = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        member.subscribe([self._topic])

    def leave(self, name: str) -> None:
        self._members.pop(name).close()

    def close(self) -> None:
        for member in self._members.values():
            member.close()

    def until_shared(self, names: list[str]) -> None:
        """Until these members have all partitions, each one of them some, and have read all that was written
        meanwhile and before.
        """
        assert list(self._members) == names
        end = time.monotonic() + 2 * CLIENT_TIMEOUT_S
        while not self._is_shared():
            self._write()
            self._poll()
            assert time.monotonic() < end, [m.assignment() for m in self._members.values()]
        for _ in range(20):
            self._write()
        while len(self._read) < self._written:
            self._poll()
            assert time.monotonic() < end, (len(self._read), self._written)
        assert self._is_shared(), "nothing moves any more"

    def kind(self) -> ConsumerGroupType:
        listed = self._admin.list_consumer_groups().result(CLIENT_TIMEOUT_S).valid
        (found,) = [one.type for one in listed if one.group_id == self._group]
        return found

    def _is_shared(self) -> bool:
        held = [[one.partition for one in m.assignment()] for m in self._members.values()]
        return all(held) and sorted(number for some in held for number in some) == [0, 1, 2, 3]

    def _write(self) -> None:
        number = self._written
        self._producer.produce(self._topic, b"%d" % number, partition=number % 4)
        self._written += 1
        self._producer.flush(CLIENT_TIMEOUT_S)

    def _poll(self) -> None:
        for member in self._members.values():
            message = member.poll(0.05)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.errors.append(error)
            else:
                value = message.value()
                assert value is not None
                self._read.add(int(value))


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
