"""Consumers that name their rack read from the follower in it, and go back when it is gone (KIP-392)."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from highwater.kafka.error_codes import ErrorCode
from tests.cluster import replicated as three
from tests.cluster.replicated import FAST_SESSIONS
from tests.cluster.traffic import NumberedProducer
from tests.conformance.protocol.requests import batches_of, fetch
from tests.support.cluster_view import view
from tests.support.java_tools import CONSUMER_PERFORMANCE, java_tool
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(240)]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SHAPE = replace(
    three.SHAPE,
    settings={
        "controller": FAST_SESSIONS,
        "partition": {"replica_selector_class": SELECTOR},
    },
)
"""Node n is in rack-n."""
FORMS = ("split", "combined", "grpcio")
RECORDS = 200
FETCHING = "org.apache.kafka.clients.consumer.internals"
"""The package of Kafka's whose debug log says which broker is asked."""
END_S_MAX = 60.0


def address_of(cluster: ReplicatedCluster, node_id: int) -> str:
    return next(f"{n.host}:{n.port}" for n in cluster.nodes if n.node_id == node_id)


def filled(cluster: ReplicatedCluster) -> tuple[str, int, int]:
    """(topic, leader, a follower) with records."""
    topic = make_replicated_topic(cluster.bootstrap, "near", partitions=1)
    produce(cluster, topic)
    ((_, partition),) = view(cluster.bootstrap, topic).items()
    return topic, partition.leader, next(n for n in partition.replicas if n != partition.leader)


def produce(cluster: ReplicatedCluster, topic: str) -> None:
    producer = NumberedProducer(cluster.bootstrap, topic)
    producer.send(RECORDS)
    producer.flush()
    assert not producer.errors


class Reader:
    """A librdkafka consumer in the rack of a node, and from which broker it reads."""

    def __init__(self, cluster: ReplicatedCluster, topic: str, node_id: int) -> None:
        self.topic = topic
        self.reads_from = -1
        self.read: list[int] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstraps,
                "group.id": "near",
                "client.rack": f"rack-{node_id}",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "statistics.interval.ms": 200,
                "stats_cb": self._stats,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        # Not as a member of a group: a rebalance would begin at the first offset again.
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _stats(self, text: str) -> None:
        topics: dict[str, Any] = json.loads(text)["topics"]
        partition = topics.get(self.topic, {}).get("partitions", {}).get("0", {})
        self.reads_from = partition.get("broker", -1)

    def wait_for(self, count: int) -> None:
        while len(self.read) < count:
            wait_until(
                lambda: self._poll() is not None, timeout_s=END_S_MAX, what=f"{count} records"
            )

    def wait_until_it_reads_from(self, *node_ids: int) -> None:
        def there() -> bool:
            self._poll()
            return self.reads_from in node_ids

        wait_until(there, timeout_s=END_S_MAX, what=f"reading from {node_ids}")

    def _poll(self) -> Message | None:
        message = self._consumer.poll(0.1)
        if message is None:
            return None
        if error := message.error():
            assert error.code() != KafkaError._AUTO_OFFSET_RESET, error.str()
            return None
        offset = message.offset()
        assert offset is not None
        self.read.append(offset)
        return message

    def close(self) -> None:
        self._consumer.close()


def test_the_leader_names_the_follower_which_answers(whole: ReplicatedCluster) -> None:
    topic, leader, follower = filled(whole)
    rack = f"rack-{follower}"
    with RawConnection.to(address_of(whole, leader)) as connection:
        for version in (11, 12, 17):
            part = fetch(connection, topic, 0, version=version, rack_id=rack)
            assert (part.error_code, part.preferred_read_replica) == (0, follower), version
            assert not part.records
            assert part.high_watermark == RECORDS
        part = fetch(connection, topic, 0, rack_id=f"rack-{leader}")
        assert (part.preferred_read_replica, bool(part.records)) == (-1, True)
    with RawConnection.to(address_of(whole, follower)) as connection:
        for version in (11, 12, 17):
            part = fetch(connection, topic, 0, version=version, rack_id=rack)
            assert (part.error_code, part.preferred_read_replica) == (0, -1), version
            assert batches_of(part)[0].base_offset == 0
        part = fetch(connection, topic, RECORDS + 1, rack_id=rack)
        assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        part = fetch(connection, topic, RECORDS, rack_id=rack, max_wait_ms=10)
        assert (part.error_code, len(part.records or b"")) == (0, 0)


def test_a_fetch_that_waits_at_a_follower_gets_new_records(whole: ReplicatedCluster) -> None:
    topic, _, follower = filled(whole)
    with contextlib.closing(Reader(whole, topic, follower)) as reader:
        reader.wait_for(RECORDS)
        reader.wait_until_it_reads_from(follower)
        produce(whole, topic)
        reader.wait_for(2 * RECORDS)
        assert reader.reads_from == follower
        assert reader.read == list(range(2 * RECORDS))


def test_without_the_follower_the_consumer_reads_on(whole: ReplicatedCluster) -> None:
    topic, _, follower = filled(whole)
    with contextlib.closing(Reader(whole, topic, follower)) as reader:
        reader.wait_for(RECORDS)
        reader.wait_until_it_reads_from(follower)
        whole.kill_node(follower)
        produce(whole, topic)
        reader.wait_for(2 * RECORDS)
        assert reader.read == list(range(2 * RECORDS)), "none is lost, and none comes twice"
        if follower <= whole.shape.combined:  # Otherwise its port is served on.
            others = (n for n in whole.node_ids if n != follower)
            reader.wait_until_it_reads_from(*others)


def test_without_the_leader_the_consumer_reads_on(whole: ReplicatedCluster) -> None:
    topic, leader, follower = filled(whole)
    with contextlib.closing(Reader(whole, topic, follower)) as reader:
        reader.wait_for(RECORDS)
        reader.wait_until_it_reads_from(follower)
        whole.kill_node(leader)
        produce(whole, topic)
        reader.wait_for(2 * RECORDS)
        assert reader.read == list(range(2 * RECORDS)), "none is lost, and none comes twice"


@pytest.mark.java
@pytest.mark.full
def test_java_consumers_read_from_the_follower(whole: ReplicatedCluster, tmp_path: Path) -> None:
    topic, _, follower = filled(whole)
    settings = tmp_path / "client.properties"
    settings.write_text(f"client.rack=rack-{follower}\n")
    done = java_tool(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", whole.bootstraps, "--topic", topic, "--num-records", str(RECORDS)),
        *("--command-config", str(settings), "--timeout", "60000"),
        jvm_options=(f"-Dorg.slf4j.simpleLogger.log.{FETCHING}=debug",),
    )
    told = re.findall(r"preferred read replica for partition \S+ to (\d+)", done.stderr)
    assert told == [str(follower)], done.stderr[-4000:]
    asked = re.findall(r"fetch request for partition .* to node \S+ \(id: (\d+)", done.stderr)
    assert asked[-1] == str(follower), asked
