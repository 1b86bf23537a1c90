"""Groups and transactions of several instances with the same names, by real clients, are apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
)
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.list_groups import ListGroupsRequest
from highwater.kafka.messages.list_transactions import ListTransactionsRequest
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.model.ids import DEFAULT_INSTANCE, SYSTEM_INSTANCE
from tests.cluster.instances import (
    INSTANCES,
    InstanceCluster,
    until,
)
from tests.support.log_batches import make_batch
from tests.support.wire import RawConnection

ALL = ("default", *INSTANCES)
PATIENCE_S = 60.0
TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "readers", "payments"
PARTITIONS = {"default": 2, "red": 1, "blue": 3}
"""Of the topic, which has the same name in each instance."""


@pytest.fixture(params=[1, 2], ids=["embedded", "combined"])
def tenants(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InstanceCluster]:
    with InstanceCluster(tmp_path, request.param) as made:
        for instance in ALL:
            create_topic(made, instance, TOPIC, PARTITIONS[instance])
        yield made


def admin(tenants: InstanceCluster, instance: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": tenants.bootstrap(instance)})


def create_topic(tenants: InstanceCluster, instance: str, name: str, partitions: int = 1) -> None:
    client = admin(tenants, instance)
    client.create_topics([NewTopic(name, partitions)])[name].result(PATIENCE_S)


def ask(tenants: InstanceCluster, instance: str, request: Any, version: int) -> Any:
    with RawConnection.to(tenants.bootstrap(instance)) as connection:
        return connection.ask(request, version)


def produce(tenants: InstanceCluster, instance: str, count: int) -> set[bytes]:
    """Records in all partitions, which say whose they are."""
    producer = Producer({"bootstrap.servers": tenants.bootstrap(instance)})
    values = {b"%s-%d" % (instance.encode(), number) for number in range(count)}
    for number, value in enumerate(sorted(values)):
        producer.produce(TOPIC, value, partition=number % PARTITIONS[instance])
    assert producer.flush(PATIENCE_S) == 0
    return values


def consumer(tenants: InstanceCluster, instance: str, **settings: Any) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": tenants.bootstrap(instance),
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    made.subscribe([TOPIC])
    return made


def read(member: Consumer, count: int) -> set[bytes]:
    """So many records; then there is a second without any."""
    found: list[bytes] = []

    def take(message: Message | None) -> None:
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message.value())

    def enough() -> bool:
        take(member.poll(0.2))
        return len(found) >= count

    until(f"{count} records", enough)
    take(member.poll(1.0))
    assert len(found) == count
    return set(found)


def committed(tenants: InstanceCluster, instance: str) -> list[int]:
    asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS[instance])]
    settings = {"bootstrap.servers": tenants.bootstrap(instance), "group.id": GROUP}
    member = Consumer(settings)
    try:
        return [place.offset for place in member.committed(asked, timeout=PATIENCE_S)]
    finally:
        member.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_equal_groups_are_apart(tenants: InstanceCluster, protocol: str) -> None:
    """Also after a restart, in which all coordinators load their logs or snapshots."""
    values = {instance: produce(tenants, instance, 6) for instance in ALL}
    members = {name: consumer(tenants, name, **{"group.protocol": protocol}) for name in ALL}
    for instance, member in members.items():
        assert read(member, 6) == values[instance]
    for instance in ("default", "red"):
        members[instance].commit(asynchronous=False)
    for member in members.values():
        member.close()
    expected = {"default": [3, 3], "red": [6], "blue": [-1001] * 3}
    assert {name: committed(tenants, name) for name in ALL} == expected
    tenants.stop()
    tenants.start()
    until("the groups after a restart", lambda: committed(tenants, "red") == [6])
    assert {name: committed(tenants, name) for name in ALL} == expected
    client = admin(tenants, "red")
    client.delete_topics([TOPIC])[TOPIC].result(PATIENCE_S)
    create_topic(tenants, "red", TOPIC)
    until("offsets of the deleted topic go", lambda: committed(tenants, "red") == [-1001])
    assert committed(tenants, "default") == expected["default"]


def test_only_the_own_groups_are_shown(tenants: InstanceCluster) -> None:
    for instance in ("default", "red"):
        member = consumer(tenants, instance, **{"group.id": f"of-{instance}"})
        produce(tenants, instance, 1)
        read(member, 1)
        member.commit(asynchronous=False)
        member.close()
    listed = {
        name: {group.group_id for group in ask(tenants, name, ListGroupsRequest(), 4).groups}
        for name in ALL
    }
    assert listed == {"default": {"of-default"}, "red": {"of-red"}, "blue": set()}
    blue, red = admin(tenants, "blue"), admin(tenants, "red")
    with pytest.raises(KafkaException) as refused:
        blue.delete_consumer_groups(["of-red"])["of-red"].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    red.delete_consumer_groups(["of-red"])["of-red"].result(PATIENCE_S)


def test_equal_transactional_ids_are_apart(tenants: InstanceCluster) -> None:
    """All open at once, with records and offsets; one aborts, and the others commit."""
    values = {instance: produce(tenants, instance, 3) for instance in ALL}
    members = {instance: consumer(tenants, instance) for instance in ALL}
    producers = {
        instance: Producer(
            {
                "bootstrap.servers": tenants.bootstrap(instance),
                "transactional.id": TRANSACTIONAL_ID,
            }
        )
        for instance in ALL
    }
    for instance in ALL:
        assert read(members[instance], 3) == values[instance]
        producers[instance].init_transactions(PATIENCE_S)
    for instance, producer in producers.items():
        producer.begin_transaction()
        for number in range(PARTITIONS[instance]):
            producer.produce(TOPIC, f"{instance}-tx-{number}".encode(), partition=number)
        member = members[instance]
        producer.send_offsets_to_transaction(
            member.position(member.assignment()), member.consumer_group_metadata(), PATIENCE_S
        )
        assert producer.flush(PATIENCE_S) == 0
    described = {name: describe(tenants, name) for name in ALL}
    for instance in ALL:
        topics = {topic.topic: sorted(topic.partitions) for topic in described[instance].topics}
        assert topics.keys() == {TOPIC, "__consumer_offsets"}
        assert topics[TOPIC] == list(range(PARTITIONS[instance]))
    assert len({one.producer_id for one in described.values()}) == len(ALL)
    producers["red"].abort_transaction(PATIENCE_S)
    for instance in ("default", "blue"):
        producers[instance].commit_transaction(PATIENCE_S)
    for instance in ALL:
        ended = "CompleteAbort" if instance == "red" else "CompleteCommit"
        until(
            f"{ended} of {instance}",
            lambda name=instance, state=ended: describe(tenants, name).transaction_state == state,
        )
        members[instance].close()
    expected = {"default": [2, 1], "red": [-1001], "blue": [1, 1, 1]}
    assert {name: committed(tenants, name) for name in ALL} == expected
    for instance in ALL:
        new = {f"{instance}-tx-{number}".encode() for number in range(PARTITIONS[instance])}
        wanted = values[instance] | (set() if instance == "red" else new)
        late = consumer(tenants, instance, **{"group.id": "late"})
        assert read(late, len(wanted)) == wanted
        late.close()


def describe(tenants: InstanceCluster, instance: str) -> Any:
    """As its coordinator tells it; the bootstrap port asks the right one."""
    request = DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID])
    (state,) = ask(tenants, instance, request, 0).transaction_states
    return state


def test_only_the_own_transactions_are_shown(tenants: InstanceCluster) -> None:
    producer = Producer(
        {"bootstrap.servers": tenants.bootstrap("red"), "transactional.id": TRANSACTIONAL_ID}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"open", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    listed = {
        name: [
            state.transactional_id
            for state in ask(tenants, name, ListTransactionsRequest(), 0).transaction_states
        ]
        for name in ALL
    }
    assert listed == {"default": [], "red": [TRANSACTIONAL_ID], "blue": []}
    # Another instance's producer of that id fences nobody.
    other = Producer(
        {"bootstrap.servers": tenants.bootstrap("blue"), "transactional.id": TRANSACTIONAL_ID}
    )
    other.init_transactions(PATIENCE_S)
    producer.commit_transaction(PATIENCE_S)
    tenants.stop()
    tenants.start()
    until(
        "the transaction after a restart",
        lambda: describe(tenants, "red").transaction_state == "CompleteCommit",
    )
    assert describe(tenants, "blue").transaction_state == "Empty"
    assert describe(tenants, "default").error_code != ErrorCode.NONE


def test_no_client_sees_or_makes_the_shared_topics(tenants: InstanceCluster) -> None:
    for instance in INSTANCES:
        member = consumer(tenants, instance)
        produce(tenants, instance, 1)
        read(member, 1)
        member.commit(asynchronous=False)
        member.close()
    for instance in ALL:
        topics = ask(tenants, instance, MetadataRequest(None), 9).topics
        visible = {topic.name for topic in topics}
        assert visible == {TOPIC}, "nor __consumer_offsets, which the default instance did not need"
        for name in ("__consumer_offsets", "__transaction_state"):
            wish = CreateTopicsRequestCreatableTopic(
                name=name, num_partitions=1, replication_factor=1
            )
            made = ask(tenants, instance, CreateTopicsRequest(topics=[wish]), 5)
            assert made.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_no_client_reaches_the_shared_topics_by_their_ids(tenants: InstanceCluster) -> None:
    for instance in ("default", "red"):
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["key"])
            until(
                f"coordinators of {instance}",
                lambda name=instance, asked=request: (
                    not ask(tenants, name, asked, 4).coordinators[0].error_code
                ),
            )
    visible = {topic.name: topic for topic in tenants.topics_of(DEFAULT_INSTANCE) if topic.internal}
    shared = {topic.name: topic for topic in tenants.topics_of(SYSTEM_INSTANCE)}
    assert shared.keys() == {"__instance_offsets", "__instance_transactions"}
    for like, name in zip(sorted(visible), sorted(shared), strict=True):
        assert shared[name].internal
        assert shared[name].configs == visible[like].configs
        assert len(shared[name].partitions) == len(visible[like].partitions)
    for instance in ALL:
        for topic in shared.values():
            assert set(codes_by_id(tenants, instance, topic.topic_id)) == {
                ErrorCode.UNKNOWN_TOPIC_ID
            }


def codes_by_id(tenants: InstanceCluster, instance: str, topic_id: bytes) -> list[int]:
    """What an instance's client is told of a topic: Metadata, Fetch, Produce, DeleteTopics."""
    asked = MetadataRequestMetadataRequestTopic(topic_id=topic_id, name=None)
    (described,) = ask(tenants, instance, MetadataRequest([asked]), 12).topics
    part = FetchRequestFetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wanted = FetchRequestFetchTopic(topic_id=topic_id, partitions=[part])
    fetch = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[wanted])
    (fetched,) = ask(tenants, instance, fetch, 13).responses[0].partitions
    data = ProduceRequestPartitionProduceData(index=0, records=bytes(make_batch()))
    topic = ProduceRequestTopicProduceData(topic_id=topic_id, partition_data=[data])
    produce = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
    (stored,) = ask(tenants, instance, produce, 13).responses[0].partition_responses
    gone = DeleteTopicsRequestDeleteTopicState(topic_id=topic_id, name=None)
    delete = DeleteTopicsRequest(topics=[gone], timeout_ms=5_000)
    (deleted,) = ask(tenants, instance, delete, 6).responses
    return [one.error_code for one in (described, fetched, stored, deleted)]
