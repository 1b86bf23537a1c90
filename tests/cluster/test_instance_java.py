"""Kafka's Java clients in instances with equal names of topics, groups and transactional ids: each has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.instances import INSTANCES, InstanceCluster
from tests.cluster.verifiable import VerifiableConsumer, VerifiableProducer
from tests.support.java_tools import TRANSACTIONAL_MESSAGE_COPIER, java_tool
from tests.support.process import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

COUNTS = {"default": 40, "red": 70, "blue": 110}
"""Records of each instance."""
TOPIC, COPIES, GROUP, TRANSACTIONAL_ID = "orders", "copies", "readers", "payments"
PATIENCE_S = 60.0


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.full)], ids=["embedded", "combined"])
def tenants(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InstanceCluster]:
    with InstanceCluster(tmp_path, request.param) as made:
        for name in COUNTS:
            admin = AdminClient({"bootstrap.servers": made.bootstrap(name)})
            topics = [NewTopic(topic, 1) for topic in (TOPIC, COPIES)]
            for created in admin.create_topics(topics).values():
                created.result(PATIENCE_S)
        yield made


def test_equal_names_are_apart(tenants: InstanceCluster, tmp_path: Path) -> None:
    assert set(COUNTS) == {"default", *INSTANCES}
    settings = tmp_path / "producer.properties"
    settings.write_text("enable.idempotence=true\nretries=2147483647\n")
    with ExitStack() as stack:
        clients = {}
        for name, count in COUNTS.items():
            bootstrap = tenants.bootstrap(name)
            consumer = VerifiableConsumer(bootstrap, TOPIC, GROUP)
            stack.callback(consumer.close)
            producer = VerifiableProducer(
                bootstrap, TOPIC, count=count, per_second=1_000, settings=settings
            )
            stack.callback(producer.close)
            clients[name] = producer, consumer
        for name, (producer, consumer) in clients.items():
            producer.wait_for_end(timeout_s=PATIENCE_S)
            assert producer.failed == []
            assert sorted(producer.acknowledged.values()) == list(range(COUNTS[name]))
            consumer.wait_for(set(producer.acknowledged), timeout_s=PATIENCE_S)
        for name, (producer, consumer) in clients.items():
            assert dict(consumer.read) == producer.acknowledged, name
            assert len(consumer.read) == COUNTS[name], "nothing of another instance, and none twice"
            assert consumer.assignments == [frozenset({0})], "it is alone in its group"
            assert consumer.failed_commits == []
    for name, count in COUNTS.items():
        wait_until(
            lambda name=name, count=count: committed(tenants, name, GROUP) == count,  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what=f"{name}'s offset",
        )
        copy(tenants, name)
    for name, count in COUNTS.items():
        assert committed(tenants, name, f"copiers of {TOPIC}") == count
        assert len(read_copies(tenants, name)) == count


def copy(tenants: InstanceCluster, name: str) -> None:
    """From one topic to the other, in transactions of one transactional id."""
    java_tool(
        TRANSACTIONAL_MESSAGE_COPIER,
        *("--broker-list", tenants.bootstrap(name), "--consumer-group", f"copiers of {TOPIC}"),
        *("--input-topic", TOPIC, "--input-partition", "0", "--output-topic", COPIES),
        *("--max-messages", str(COUNTS[name]), "--transaction-size", "10"),
        *("--transactional-id", TRANSACTIONAL_ID),
    )


def committed(tenants: InstanceCluster, name: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": tenants.bootstrap(name), "group.id": group})
    try:
        (place,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_S)
        offset: int = place.offset
        return offset
    finally:
        consumer.close()


def read_copies(tenants: InstanceCluster, name: str) -> list[bytes]:
    """What is committed, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": tenants.bootstrap(name),
            "group.id": "a reader of copies",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(COPIES, 0, 0)])
    found: list[bytes] = []

    def take() -> bool:
        message: Message | None = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            found.append(value)
        return message is None and len(found) >= COUNTS[name]

    try:
        wait_until(take, timeout_s=PATIENCE_S, what=f"{COUNTS[name]} copies")
    finally:
        consumer.close()
    return found
