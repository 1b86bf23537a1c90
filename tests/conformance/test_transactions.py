"""Transactions of clients that others wrote: librdkafka, Kafka's Java tools, Go, Node and Rust."""

from __future__ import annotations

import re
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.clients.driver_client import DriverClient, Transaction
from tests.conformance.clients.go_drivers import BUILD_TIMEOUT_S as GO_BUILD_TIMEOUT_S
from tests.conformance.clients.go_drivers import FRANZ_GO, LIBRDKAFKA_1_8, SARAMA, needs_x86_64
from tests.conformance.clients.node_drivers import KAFKAJS, PLATFORMATIC, needs_its_node
from tests.conformance.clients.rust_driver import BUILD_TIMEOUT_S, RUST_RDKAFKA, needs_cargo
from tests.conformance.messages import Message
from tests.conformance.topics import committed_offsets, end_offsets, make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.java_tools import (
    PRODUCER_PERFORMANCE,
    TRANSACTIONAL_MESSAGE_COPIER,
    TRANSACTIONS,
    java_tool,
)
from tests.support.process import wait_until

PARTITIONS = 2


def transactional(cluster: Cluster, transactional_id: str, **settings: object) -> Producer:
    """A producer that has its id and epoch."""
    given = {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
    producer = Producer({**given, **settings})
    producer.init_transactions(CLIENT_TIMEOUT_S)
    return producer


def send(producer: Producer, topic: str, *values: bytes) -> None:
    """One record for each value, into all partitions in turn."""
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)


def read(
    cluster: Cluster, topic: str, *, isolation: str = "read_committed", group: str = "unused"
) -> set[bytes]:
    """All values up to the end, as the isolation level shows it."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: set[bytes] = set()
    ended: set[int] = set()

    def at_the_end() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.add(message.value())
        elif message is not None:
            ended.add(message.partition())
        return len(ended) == PARTITIONS

    try:
        wait_until(at_the_end, timeout_s=CLIENT_TIMEOUT_S, what="the ends", poll_s=0)
    finally:
        consumer.close()
    return found


@pytest.mark.core
@pytest.mark.gateways
def test_committed_and_aborted(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    producer = transactional(cluster, unique_name("payments"))
    for name, ends in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        send(producer, topic, *(f"{name}{n}".encode() for n in range(6)))
        if ends:
            producer.commit_transaction(CLIENT_TIMEOUT_S)
        else:
            producer.flush(CLIENT_TIMEOUT_S)
            producer.abort_transaction(CLIENT_TIMEOUT_S)
    committed = {f"{name}{n}".encode() for name in "ac" for n in range(6)}
    wait_until(
        lambda: read(cluster, topic) == committed,
        timeout_s=CLIENT_TIMEOUT_S,
        what="all that is committed, and nothing else",
    )
    everything = {f"{name}{n}".encode() for name in "abc" for n in range(6)}
    assert read(cluster, topic, isolation="read_uncommitted") == everything
    # Nine records and three markers in each partition.
    assert end_offsets(cluster.bootstrap, topic, PARTITIONS) == dict.fromkeys(range(PARTITIONS), 12)


@pytest.mark.clients
@pytest.mark.core
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(FRANZ_GO, id="franz-go"),
        pytest.param(SARAMA, id="sarama"),
        pytest.param(KAFKAJS, id="kafkajs"),
        pytest.param(PLATFORMATIC, marks=needs_its_node, id="platformatic"),
        pytest.param(
            RUST_RDKAFKA,
            marks=[pytest.mark.full, pytest.mark.timeout(BUILD_TIMEOUT_S), needs_cargo],
            id="rdkafka-crate",
        ),
        pytest.param(
            LIBRDKAFKA_1_8,
            marks=[pytest.mark.full, pytest.mark.timeout(GO_BUILD_TIMEOUT_S), needs_x86_64],
            id="librdkafka-1.8",
        ),
    ],
)
def test_committed_and_aborted_by_clients_of_other_languages(
    cluster: Cluster, topic: str, client: DriverClient
) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    work = [
        Transaction(
            abort=number % 2 == 1,
            messages=[Message(key=None, value=b"%d-%d" % (number, n)) for n in range(3)],
            partition=number % PARTITIONS,
        )
        for number in range(7)
    ]
    outcomes = client.transact(cluster.bootstrap, topic, unique_name("payments"), work)
    assert outcomes == ["aborted" if one.abort else "committed" for one in work]
    committed = {m.value for one in work if not one.abort for m in one.messages}
    wait_until(
        lambda: read(cluster, topic) == committed,
        timeout_s=CLIENT_TIMEOUT_S,
        what="all that is committed, and nothing else",
    )
    everything = {m.value for one in work for m in one.messages}
    assert read(cluster, topic, isolation="read_uncommitted") == everything


def test_what_is_open_cannot_be_read(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    producer = transactional(cluster, unique_name("payments"))
    producer.begin_transaction()
    send(producer, topic, b"open", b"open")
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    ordinary = Producer({"bootstrap.servers": cluster.bootstrap})
    send(ordinary, topic, b"behind", b"behind")
    assert ordinary.flush(CLIENT_TIMEOUT_S) == 0
    assert read(cluster, topic) == set()
    assert read(cluster, topic, isolation="read_uncommitted") == {b"open", b"behind"}
    producer.commit_transaction(CLIENT_TIMEOUT_S)
    wait_until(
        lambda: read(cluster, topic) == {b"open", b"behind"},
        timeout_s=CLIENT_TIMEOUT_S,
        what="the committed records",
    )


@pytest.mark.core
def test_a_newer_producer_fences_the_older_one(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    name = unique_name("payments")
    older = transactional(cluster, name)
    older.begin_transaction()
    send(older, topic, b"lost", b"lost")
    assert older.flush(CLIENT_TIMEOUT_S) == 0
    newer = transactional(cluster, name)
    newer.begin_transaction()
    send(newer, topic, b"kept", b"kept")
    newer.commit_transaction(CLIENT_TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        older.commit_transaction(CLIENT_TIMEOUT_S)
    assert refused.value.args[0].fatal()
    wait_until(
        lambda: read(cluster, topic) == {b"kept"},
        timeout_s=CLIENT_TIMEOUT_S,
        what="the newer one's",
    )


def test_offsets_of_a_group_are_committed_with_the_transaction(
    cluster: Cluster, topic: str, group: str
) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    producer = transactional(cluster, unique_name("payments"))
    offsets = [TopicPartition(topic, index, 7 + index) for index in range(PARTITIONS)]
    metadata = consumer_metadata(cluster, group)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets, metadata, CLIENT_TIMEOUT_S)
    producer.abort_transaction(CLIENT_TIMEOUT_S)
    assert committed_offsets(cluster.bootstrap, group) == {}
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets, metadata, CLIENT_TIMEOUT_S)
    producer.commit_transaction(CLIENT_TIMEOUT_S)
    wait_until(
        lambda: committed_offsets(cluster.bootstrap, group) == {0: 7, 1: 8},
        timeout_s=CLIENT_TIMEOUT_S,
        what="the committed offsets",
    )


def consumer_metadata(cluster: Cluster, group: str) -> Any:
    """That of a consumer that has assigned its partitions itself."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


@pytest.mark.java
def test_a_java_producer_commits_often(cluster: Cluster, topic: str) -> None:
    """Kafka 4.3's client uses transaction.version 2: epochs grow with each transaction."""
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    count = 5_000
    produced = java_tool(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic),
        *("--num-records", str(count), "--record-size", "100", "--throughput", "2000"),
        *("--transactional-id", unique_name("perf"), "--transaction-duration-ms", "50"),
    ).stdout
    assert f"{count} records sent" in produced
    ends = end_offsets(cluster.bootstrap, topic, PARTITIONS)
    assert sum(ends.values()) > count, "there are markers"


@pytest.mark.java
@pytest.mark.full
def test_the_transactional_copier_copies_everything_once(
    cluster: Cluster, topic: str, group: str
) -> None:
    """Consume, transform, produce: offsets and records in one transaction (KIP-447)."""
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    copy = make_topic(cluster.bootstrap, f"{topic}-copy", partitions=PARTITIONS)
    values = [b"%d" % number for number in range(400)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=0, key=b"%d" % number)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    java_tool(
        TRANSACTIONAL_MESSAGE_COPIER,
        *("--broker-list", cluster.bootstrap, "--input-topic", topic, "--output-topic", copy),
        *("--input-partition", "0", "--transactional-id", unique_name("copier")),
        *("--consumer-group", group, "--transaction-size", "50", "--max-messages", "400"),
        "--enable-random-aborts",
    )
    wait_until(
        lambda: read(cluster, copy) == set(values),
        timeout_s=CLIENT_TIMEOUT_S,
        what="the committed copies",
    )
    assert committed_offsets(cluster.bootstrap, group)[0] == len(values)


@pytest.mark.java
def test_transactions_command(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    name = unique_name("payments")
    producer = transactional(cluster, name)
    producer.begin_transaction()
    send(producer, topic, b"open", b"open")
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    listed = transactions(cluster, "list")
    assert re.search(rf"{name}\s+\d+\s+\d+\s+Ongoing", listed), listed
    described = transactions(cluster, "describe", "--transactional-id", name)
    for told in (name, "Ongoing", f"{topic}-0", f"{topic}-1"):
        assert told in described
    transactions(cluster, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    wait_until(
        lambda: (
            "None"
            in transactions(
                cluster, "describe-producers", "--topic", topic, "--partition", "0"
            ).split()[-1]
        ),
        timeout_s=CLIENT_TIMEOUT_S,
        what="the end of the transaction in partition 0",
    )


def transactions(cluster: Cluster, *arguments: str) -> str:
    """What the command prints."""
    return java_tool(TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, *arguments).stdout
