"""The topic of transaction states gets all its replicas, and transactions go on when nodes end."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.model.ids import TRANSACTION_STATE_TOPIC
from tests.cluster.replicated import FAST_SESSIONS
from tests.cluster.runner import START_TIMEOUT_S, Up
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import ConnectionEnded, RawConnection

SHAPE = Shape(settings={"controller": FAST_SESSIONS})
FORMS = ("combined", "split")
ATTEMPT_S_MAX = 60.0
TRANSACTIONAL_ID = "payments"
_VERSION = 4
_TRANSACTION = 1
_REQUEST = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[TRANSACTIONAL_ID])


def _has_coordinator(up: Up) -> bool:
    try:
        with RawConnection.to(up.bootstrap) as connection:
            (found,) = connection.ask(_REQUEST, _VERSION).coordinators
    except (OSError, ConnectionEnded):
        return False  # No gateway listens yet.
    return not found.error_code


@pytest.mark.full
def test_the_first_transaction_waits_for_all_nodes(tmp_path: Path) -> None:
    up = Up("nodes3", tmp_path)
    up.process.start()  # The producer asks before the command is ready.
    try:
        wait_until(lambda: _has_coordinator(up), timeout_s=START_TIMEOUT_S, what="a coordinator")
        with KafkaClient(up.bootstrap) as client:
            (topic,) = client.metadata([TRANSACTION_STATE_TOPIC]).topics
    finally:
        up.stop()
    assert topic.is_internal
    replicas = [sorted(partition.replica_nodes) for partition in topic.partitions]
    assert replicas == [[1, 2, 3]] * 50


@pytest.mark.etcd
def test_a_producer_goes_on_when_its_coordinator_dies(whole: ReplicatedCluster) -> None:
    """All transactions but those that it aborts itself are read, each as a whole and once."""
    topic = make_replicated_topic(whole.bootstrap, "transfers", partitions=2)
    producer = Producer(
        {"bootstrap.servers": whole.bootstrap, "transactional.id": TRANSACTIONAL_ID}
    )
    producer.init_transactions(ATTEMPT_S_MAX)
    for number in range(9):
        if number == 3:
            whole.kill_node(coordinator(whole))
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"%d" % number, partition=partition)
        if number % 3 == 2:
            # Else it may end a transaction that never began: librdkafka does not wait for partitions that it may add
            # only when the commit before is complete, and takes the refusal, which Kafka gives too, for fatal.
            producer.flush(ATTEMPT_S_MAX)
            producer.abort_transaction(ATTEMPT_S_MAX)
        else:
            producer.commit_transaction(ATTEMPT_S_MAX)
    expected = [b"%d" % number for number in range(9) if number % 3 != 2]
    wait_until(
        lambda: [read(whole, topic, partition) for partition in range(2)] == [expected] * 2,
        timeout_s=ATTEMPT_S_MAX,
        what="all committed transactions",
    )


def coordinator(cluster: ReplicatedCluster) -> int:
    """The node that coordinates the transactional id."""
    with RawConnection.to(cluster.bootstrap) as connection:
        (found,) = connection.ask(_REQUEST, _VERSION).coordinators
    assert found.error_code == 0
    return int(found.node_id)


def read(cluster: ReplicatedCluster, topic: str, partition: int) -> list[bytes]:
    """The committed values of one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    try:
        while (message := consumer.poll(ATTEMPT_S_MAX)) is not None and message.error() is None:
            values.append(message.value())
    finally:
        consumer.close()
    return values
