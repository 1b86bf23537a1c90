"""confluent-kafka's AdminClient, and the errors of its producer and consumer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.clients.confluent import ConfluentClient, open_consumer, poll
from tests.conformance.messages import Message, assert_read_back, make_messages
from tests.conformance.topics import committed_offsets, make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.process import wait_until

CLIENT = ConfluentClient()


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def _result(futures: dict[Any, Any]) -> Any:
    """The result of a call about one resource."""
    (future,) = futures.values()
    return future.result(CLIENT_TIMEOUT_S)


def _code(call: Callable[[], Any]) -> int:
    """The error code of a failing call."""
    with pytest.raises(KafkaException) as raised:
        call()
    code: int = raised.value.args[0].code()
    return code


@pytest.mark.core
def test_topics(admin: AdminClient, topic: str) -> None:
    _result(admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "86400000"})]))
    described = _result(admin.describe_topics(TopicCollection([topic])))
    assert [part.id for part in described.partitions] == [0, 1, 2]
    assert all(part.leader.id == part.replicas[0].id for part in described.partitions)
    exists = _code(lambda: _result(admin.create_topics([NewTopic(topic, 3, 1)])))
    assert exists == KafkaError.TOPIC_ALREADY_EXISTS
    _result(admin.create_partitions([NewPartitions(topic, 5)]))
    wait_until(
        lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5,
        timeout_s=CLIENT_TIMEOUT_S,
        what="five partitions",
    )
    fewer = _code(lambda: _result(admin.create_partitions([NewPartitions(topic, 2)])))
    assert fewer == KafkaError.INVALID_PARTITIONS
    _result(admin.delete_topics([topic]))
    gone = _code(lambda: _result(admin.delete_topics([topic])))
    assert gone == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "error"),
    [
        ("not a name", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        (None, 1, 9, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        (None, 1, 1, {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
        (None, 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topics(
    admin: AdminClient,
    topic: str,
    name: str | None,
    partitions: int,
    replicas: int,
    config: dict[str, str],
    error: int,
) -> None:
    new = NewTopic(name or topic, partitions, replicas, config=config)
    assert _code(lambda: _result(admin.create_topics([new]))) == error


@pytest.mark.core
def test_configs(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)

    def described() -> dict[str, Any]:
        configs: dict[str, Any] = _result(
            admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
        )
        return configs

    before = described()
    assert before["retention.ms"].is_default
    assert len(before) > 20
    change = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    _result(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])]
        )
    )
    wait_until(
        lambda: described()["retention.ms"].value == "7200000",
        timeout_s=CLIENT_TIMEOUT_S,
        what="the changed config",
    )
    assert not described()["retention.ms"].is_default
    node = cluster.nodes[0].node_id
    broker = _result(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]))
    assert broker


def test_cluster(admin: AdminClient, cluster: Cluster) -> None:
    described = admin.describe_cluster().result(CLIENT_TIMEOUT_S)
    assert described.cluster_id
    assert {node.id for node in described.nodes} == {node.node_id for node in cluster.nodes}
    assert described.controller.id in {node.id for node in described.nodes}


def test_offsets(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = make_messages(10, writes=frozenset({"timestamps"}))
    CLIENT.produce(cluster.bootstrap, topic, messages, partition=0)
    asked = messages[4].timestamp_ms
    assert asked is not None

    def offset(spec: OffsetSpec) -> int:
        found: int = _result(admin.list_offsets({TopicPartition(topic, 0): spec})).offset
        return found

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 10
    assert offset(OffsetSpec.for_timestamp(asked)) == 4
    assert offset(OffsetSpec.max_timestamp()) == 9


@pytest.mark.core
def test_delete_records(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, make_messages(5, writes=frozenset()), partition=0)

    def delete(offset: int) -> int:
        deleted = _result(admin.delete_records([TopicPartition(topic, 0, offset)]))
        low_watermark: int = deleted.low_watermark
        return low_watermark

    assert delete(3) == 3
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert _result(earliest).offset == 3
    assert _code(lambda: delete(6)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert delete(-1) == 5


@pytest.mark.core
def test_groups(admin: AdminClient, cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x")] * 3, partition=0)
    consumer = open_consumer(cluster.bootstrap, **{"group.id": group, "client.id": "the-one"})
    try:
        consumer.subscribe([topic])
        got = 0
        deadline = time.monotonic() + CLIENT_TIMEOUT_S
        while got < 3:
            assert time.monotonic() < deadline
            got += len(poll(consumer, 0.2))
        consumer.commit(asynchronous=False)
        listed = admin.list_consumer_groups().result(CLIENT_TIMEOUT_S)
        assert group in [one.group_id for one in listed.valid]
        assert not listed.errors
        described = _result(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        (member,) = described.members
        assert member.client_id == "the-one"
        assert [part.topic for part in member.assignment.topic_partitions] == [topic]
        busy = _code(lambda: _result(admin.delete_consumer_groups([group])))
        assert busy == KafkaError.NON_EMPTY_GROUP
    finally:
        consumer.close()
    assert committed_offsets(cluster.bootstrap, group) == {0: 3}
    assert _result(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    _result(admin.alter_consumer_group_offsets([moved]))
    assert committed_offsets(cluster.bootstrap, group) == {0: 1}
    _result(admin.delete_consumer_groups([group]))
    unknown = _code(lambda: _result(admin.delete_consumer_groups([group])))
    assert unknown == KafkaError.GROUP_ID_NOT_FOUND
    assert _result(admin.describe_consumer_groups([group])).state == ConsumerGroupState.DEAD


def test_a_message_that_is_too_large(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    large = Message(key=None, value=b"x" * 5_000)
    error = _code(lambda: CLIENT.produce(cluster.bootstrap, topic, [large]))
    assert error == KafkaError.MSG_SIZE_TOO_LARGE


def test_an_unknown_partition(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    message = Message(key=None, value=b"x")
    error = _code(lambda: CLIENT.produce(cluster.bootstrap, topic, [message], partition=7))
    assert error == KafkaError._UNKNOWN_PARTITION


def test_consuming_an_unknown_topic(cluster: Cluster, topic: str) -> None:
    consumer = open_consumer(
        cluster.bootstrap, **{"allow.auto.create.topics": False, "group.id": unique_name("no")}
    )
    try:
        consumer.subscribe([topic])
        assert _code(lambda: _poll_until_error(consumer)) == KafkaError.UNKNOWN_TOPIC_OR_PART
    finally:
        consumer.close()


def test_an_offset_out_of_range(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x")], partition=0)
    consumer = open_consumer(cluster.bootstrap, **{"auto.offset.reset": "error"})
    try:
        consumer.assign([TopicPartition(topic, 0, 1_000)])
        error = _code(lambda: _poll_until_error(consumer))
        assert error == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()
    # With a reset policy, the same position leads to the beginning.
    consumer = open_consumer(cluster.bootstrap)
    try:
        consumer.assign([TopicPartition(topic, 0, 1_000)])
        deadline = time.monotonic() + CLIENT_TIMEOUT_S
        stored = poll(consumer, 0.2)
        while not stored:
            assert time.monotonic() < deadline
            stored = poll(consumer, 0.2)
        assert [record.offset for record in stored] == [0]
    finally:
        consumer.close()


def _poll_until_error(consumer: Consumer) -> None:
    deadline = time.monotonic() + CLIENT_TIMEOUT_S
    while time.monotonic() < deadline:
        poll(consumer, 0.2)


@pytest.mark.core
def test_automatic_creation_by_a_producer(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    CLIENT.produce(cluster.bootstrap, topic, [Message(key=b"k", value=b"x")])
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 1


@pytest.mark.core
def test_idempotent_producer(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 1}
    )
    values = [f"{index}".encode() for index in range(2_000)]
    for value in values:
        producer.produce(topic, value=value, partition=0)
        producer.poll(0)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    stored = CLIENT.consume(cluster.bootstrap, topic, partitions=1, count=len(values))
    assert [record.message.value for record in stored] == values


def test_large_messages(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = [Message(key=b"%d" % index, value=bytes([index]) * 900_000) for index in range(8)]
    CLIENT.produce(cluster.bootstrap, topic, messages, partition=0)
    stored = CLIENT.consume(cluster.bootstrap, topic, partitions=1, count=8)
    assert_read_back({0: messages}, stored)


def test_elections(admin: AdminClient, topic: str) -> None:
    _result(admin.create_topics([NewTopic(topic, 2, 1)]))
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        asked = [TopicPartition(topic, number) for number in (0, 1, 9)]
        results = admin.elect_leaders(kind, asked).result(CLIENT_TIMEOUT_S)
        codes = {tp.partition: error and error.code() for tp, error in results.items()}
        needed = KafkaError.ELECTION_NOT_NEEDED
        assert codes == {0: needed, 1: needed, 9: KafkaError.UNKNOWN_TOPIC_OR_PART}
    everything = admin.elect_leaders(ElectionType.PREFERRED).result(CLIENT_TIMEOUT_S)
    assert not [tp for tp in everything if tp.topic == topic], "nothing to do there"
