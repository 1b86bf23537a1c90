"""kafka-python's admin client, and the errors of its producer and consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, OffsetSpec, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.clients.kafka_python import KafkaPythonClient, open_consumer, poll
from tests.conformance.messages import Message, make_messages
from tests.conformance.topics import committed_offsets, make_topic
from tests.support.cluster import Cluster
from tests.support.process import wait_until

CLIENT = KafkaPythonClient()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.mark.core
def test_topics(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 3, "configs": {"retention.ms": "86400000"}}})
    admin.wait_for_topics([topic])
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert sorted(part["partition_index"] for part in described["partitions"]) == [0, 1, 2]
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 3}})
    admin.create_partitions({topic: 5})
    wait_until(
        lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 5,
        timeout_s=CLIENT_TIMEOUT_S,
        what="five partitions",
    )
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    admin.delete_topics([topic])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_invalid_topics(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(errors.InvalidTopicError):
        admin.create_topics({"not a name": {"num_partitions": 1}})
    with pytest.raises(errors.InvalidReplicationFactorError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 9}})
    with pytest.raises(errors.InvalidConfigurationError):
        admin.create_topics({topic: {"configs": {"no.such.config": "1"}}})


def test_configs(admin: KafkaAdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)

    def described(which: str) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found: dict[str, Any] = admin.describe_configs([resource], config_filter=which)
        (by_name,) = found.values()
        configs: dict[str, Any] = by_name[topic]
        return configs

    assert len(described("all")) > 20
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "7200000"})]
    )
    wait_until(
        lambda: "retention.ms" in described("modified"),
        timeout_s=CLIENT_TIMEOUT_S,
        what="the changed config",
    )
    assert described("modified")["retention.ms"]["value"] == "7200000"


def test_cluster(admin: KafkaAdminClient, cluster: Cluster) -> None:
    described = admin.describe_cluster()
    ids = {broker.get("broker_id", broker.get("node_id")) for broker in described["brokers"]}
    assert ids == {node.node_id for node in cluster.nodes}


def test_metadata_quorum(admin: KafkaAdminClient, cluster: Cluster) -> None:
    described = admin.describe_metadata_quorum()
    (partition,) = described["topics"][0]["partitions"]
    assert partition["error"] is None
    voters, observers = (
        [one["replica_id"] for one in partition[who]] for who in ("current_voters", "observers")
    )
    assert partition["leader_id"] in voters
    assert {*voters, *observers} >= {node.node_id for node in cluster.nodes}
    assert [one["node_id"] for one in described["nodes"]] == voters


def test_offsets(admin: KafkaAdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = make_messages(10, writes=frozenset({"timestamps"}))
    CLIENT.produce(cluster.bootstrap, topic, messages, partition=0)
    partition = TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        found: int = admin.list_partition_offsets({partition: spec})[partition].offset
        return found

    assert offset(OffsetSpec.EARLIEST) == 0
    assert offset(OffsetSpec.LATEST) == 10
    assert offset(messages[4].timestamp_ms) == 4
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 9


@pytest.mark.core
def test_delete_records(admin: KafkaAdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, make_messages(5, writes=frozenset()), partition=0)
    place = TopicPartition(topic, 0)
    deleted = admin.delete_records({place: 3})
    assert deleted[place]["low_watermark"] == 3
    earliest = admin.list_partition_offsets({place: OffsetSpec.EARLIEST})
    assert earliest[place].offset == 3
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({place: 6})
    assert admin.delete_records({place: -1})[place]["low_watermark"] == 5


def test_groups(admin: KafkaAdminClient, cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x")] * 3, partition=0)
    member = CLIENT.join(cluster.bootstrap, group, topic)
    try:
        wait_until(
            lambda: len(member.received()) == 3, timeout_s=CLIENT_TIMEOUT_S, what="three records"
        )
        member.commit()
        assert group in [one["group_id"] for one in admin.list_groups()]
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable"
        assert len(described["members"]) == 1
        assert _error_of(admin.delete_groups([group]), group) == "NonEmptyGroupError"
    finally:
        member.close()
    assert committed_offsets(cluster.bootstrap, group) == {0: 3}
    offsets = admin.list_group_offsets({group: None})[group]
    assert offsets[TopicPartition(topic, 0)].offset == 3
    assert _error_of(admin.delete_groups([group]), group) == "OK"
    assert _error_of(admin.delete_groups([group]), group) == "GroupIdNotFoundError"


def _error_of(results: dict[str, Any], group: str) -> str:
    return str(results[group]).partition(":")[0].strip("'")


def test_a_message_that_is_too_large(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(errors.MessageSizeTooLargeError):
        CLIENT.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x" * 5_000)])


def test_describing_an_unknown_topic(admin: KafkaAdminClient, cluster: Cluster, topic: str) -> None:
    consumer = open_consumer(cluster.bootstrap, allow_auto_create_topics=False)
    try:
        assert not consumer.partitions_for_topic(topic)
        assert topic not in consumer.topics()
    finally:
        consumer.close()
    assert topic not in admin.list_topics()


def test_an_offset_out_of_range(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    consumer = open_consumer(cluster.bootstrap, auto_offset_reset="none")
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 1_000)
        with pytest.raises(errors.OffsetOutOfRangeError):  # noqa: PT012  # noqa: PT012  # Any of the polls may raise.
            deadline = time.monotonic() + CLIENT_TIMEOUT_S
            while time.monotonic() < deadline:
                poll(consumer, 0.2)
    finally:
        consumer.close()


def test_the_default_producer_is_idempotent(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    assert producer.config["enable_idempotence"]
    values = [f"{index}".encode() for index in range(500)]
    for value in values:
        producer.send(topic, value=value, partition=0)
    producer.flush(timeout=CLIENT_TIMEOUT_S)
    producer.close(timeout=CLIENT_TIMEOUT_S)
    stored = CLIENT.consume(cluster.bootstrap, topic, partitions=1, count=len(values))
    assert [record.message.value for record in stored] == values


def test_elections(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 2}})
    admin.wait_for_topics([topic])

    def elect(kind: int, partitions: list[int]) -> dict[int, int]:
        response = admin.elect_leaders(kind, {topic: partitions}, raise_errors=False)
        (result,) = response.replica_election_results
        assert result.topic == topic
        return {one.partition_id: one.error_code for one in result.partition_result}

    assert elect(0, [0, 1]) == dict.fromkeys((0, 1), errors.ElectionNotNeededError.errno)
    assert elect(1, [1]) == {1: errors.ElectionNotNeededError.errno}, "it has a leader"
    assert elect(0, [9]) == {9: errors.UnknownTopicOrPartitionError.errno}
