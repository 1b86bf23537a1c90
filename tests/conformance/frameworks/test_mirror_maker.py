"""MirrorMaker 2 with Apache Kafka on the other side: topics, configs and offsets, both ways."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
)

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.frameworks.committed_reader import CommittedReader
from tests.conformance.frameworks.mirror_maker import ROUND_S, MirrorMaker, Side
from tests.conformance.topics import committed_offsets, make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.frameworks import FRAMEWORK_TIMEOUT_S
from tests.support.kafka_peer import KafkaPeer
from tests.support.process import wait_until

pytestmark = [pytest.mark.java, pytest.mark.full, pytest.mark.timeout(6 * FRAMEWORK_TIMEOUT_S)]

KAFKA = "kafka"
PARTITIONS = 2
COUNT = 500
ROUNDS = 10
RETENTION = "retention.ms"


@pytest.fixture(scope="module")
def peer() -> Iterator[Side]:
    with KafkaPeer() as kafka:
        yield Side(alias=KAFKA, bootstrap=kafka.bootstrap)


def test_both_ways(cluster: Cluster, peer: Side, tmp_path: Path) -> None:
    ours = Side(alias=unique_name("highwater"), bootstrap=cluster.bootstrap)
    ways = [_Way(ours, peer), _Way(peer, ours)]
    for way in ways:
        way.prepare()
    mirror = MirrorMaker(ours, peer, tmp_path)
    mirror.process.start()
    try:
        for way in ways:
            way.check_records(COUNT)
            way.check_configs("7200000")
            way.check_offsets()
        # What comes while it runs: records, a config and a partition.
        for way in ways:
            way.write(COUNT)
            way.set_retention("3600000")
            way.add_partition()
        for way in ways:
            way.check_records(2 * COUNT)
            way.check_configs("3600000")
            way.check_partitions(PARTITIONS + 1)
        settled = mirror.complaints()
        time.sleep(ROUNDS * ROUND_S)
        assert mirror.complaints()[len(settled) :] == [], (
            "complaints of rounds in which all is done"
        )
        assert [line for line in settled if "] ERROR " in line] == []
        assert mirror.process.running
    except BaseException:
        print(mirror.process.log_tail())
        raise
    finally:
        mirror.process.stop()


class _Way:
    """From a source to a target: a topic with records and a config, and a group that has read all of them."""

    def __init__(self, source: Side, target: Side) -> None:
        self._source = source
        self._target = target
        self._topic = unique_name("mirrored-topic")
        self._group = unique_name("mirrored-group")
        self._copy = f"{source.alias}.{self._topic}"
        self._written = 0

    def prepare(self) -> None:
        make_topic(
            self._source.bootstrap,
            self._topic,
            partitions=PARTITIONS,
            configs={RETENTION: "7200000"},
        )
        self.write(COUNT)
        commit(self._source, self._topic, self._group, COUNT // PARTITIONS)

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self._source.bootstrap})
        for number in range(self._written, self._written + count):
            producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(CLIENT_TIMEOUT_S) == 0
        self._written += count

    def set_retention(self, value: str) -> None:
        resource = ConfigResource(
            ResourceType.TOPIC,
            self._topic,
            incremental_configs=[
                ConfigEntry(RETENTION, value, incremental_operation=AlterConfigOpType.SET)
            ],
        )
        admin = AdminClient({"bootstrap.servers": self._source.bootstrap})
        admin.incremental_alter_configs([resource])[resource].result(CLIENT_TIMEOUT_S)

    def add_partition(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._source.bootstrap})
        added = admin.create_partitions([NewPartitions(self._topic, PARTITIONS + 1)])
        added[self._topic].result(CLIENT_TIMEOUT_S)

    def check_records(self, count: int) -> None:
        """Every record is in the copy once, in its partition and order."""
        admin = AdminClient({"bootstrap.servers": self._target.bootstrap})
        wait_until(
            lambda: self._copy in admin.list_topics(timeout=CLIENT_TIMEOUT_S).topics,
            timeout_s=FRAMEWORK_TIMEOUT_S,
            what=f"topic {self._copy}",
        )
        with CommittedReader(self._target.bootstrap, self._copy, PARTITIONS) as reader:
            wait_until(
                lambda: len(reader.read()) >= count,
                timeout_s=FRAMEWORK_TIMEOUT_S,
                what=f"{count} records of {self._copy}",
                poll_s=0,
            )
            for partition in range(PARTITIONS):
                found = [one.value for one in reader.records if one.partition == partition]
                assert found == [b"%d" % number for number in range(partition, count, PARTITIONS)]

    def check_partitions(self, count: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._target.bootstrap})

        def there() -> bool:
            topic = admin.list_topics(self._copy, timeout=CLIENT_TIMEOUT_S).topics[self._copy]
            return len(topic.partitions) == count

        wait_until(there, timeout_s=FRAMEWORK_TIMEOUT_S, what=f"{count} partitions of {self._copy}")

    def check_configs(self, retention: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._target.bootstrap})

        def synced() -> bool:
            resource = ConfigResource(ResourceType.TOPIC, self._copy)
            entry = admin.describe_configs([resource])[resource].result(CLIENT_TIMEOUT_S)[RETENTION]
            dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            return (entry.value, entry.source) == (retention, dynamic)

        wait_until(
            synced, timeout_s=FRAMEWORK_TIMEOUT_S, what=f"{RETENTION} of {self._copy}", poll_s=0.5
        )

    def check_offsets(self) -> None:
        """The group goes on in the copy where it is in the source.

        Of offsets before the end MirrorMaker knows only some exactly.
        """
        read = COUNT // PARTITIONS
        wait_until(
            lambda: (
                committed_offsets(self._target.bootstrap, self._group)
                == dict.fromkeys(range(PARTITIONS), read)
            ),
            timeout_s=FRAMEWORK_TIMEOUT_S,
            what=f"offsets of {self._group} at {self._target.alias}",
            poll_s=0.5,
        )


_NOT_YET = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}


def commit(side: Side, topic: str, group: str, offset: int) -> None:
    """Commits the offset in every partition, as a consumer of the group would."""
    consumer = Consumer({"bootstrap.servers": side.bootstrap, "group.id": group})
    offsets = [TopicPartition(topic, index, offset) for index in range(PARTITIONS)]

    def committed() -> bool:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # A coordinator whose topic has just been made; the client does not ask again.
            if error.args[0].code() not in _NOT_YET:
                raise
            return False
        return True

    try:
        wait_until(committed, timeout_s=CLIENT_TIMEOUT_S, what=f"a commit at {side.alias}")
    finally:
        consumer.close()
