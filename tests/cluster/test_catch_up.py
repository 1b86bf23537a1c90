"""Followers that catch up: throttled (KIP-73), by files and by bytes."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.cluster import replicated as three
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs, log_bytes
from tests.support.process import free_port_block, wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

FORMS = ("split", "grpcio")
BYTES_ONLY = 3
"""The node that cannot read its leaders' files."""
VALUE = b"v" * 100_000
MIB = 1 << 20
RATE = MIB
ISR_S_MAX = 30.0
TIMEOUT_S = 30.0
SESSIONS = {"session_timeout_ms": "2400", "heartbeat_interval_ms": "400"}


@pytest.fixture(scope="module")
def metrics_ports() -> dict[int, int]:
    first = free_port_block(3)
    return {node: first + node - 1 for node in (1, 2, 3)}


@pytest.fixture(scope="module")
def replicated(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    metrics_ports: dict[int, int],
) -> Iterator[ReplicatedCluster]:
    settings = {f"node-{n}": {"metrics.port": str(port)} for n, port in metrics_ports.items()}
    settings[f"node-{BYTES_ONLY}"]["replica_reads_files"] = "false"
    shape = Shape(controllers=1, etcd_members=1, settings={"controller": SESSIONS, **settings})
    directory = tmp_path_factory.mktemp("catch-up")
    with three.running(directory, three.in_form(shape, request.param)) as made:
        yield made


def metric(ports: dict[int, int], node: int, name: str) -> float:
    """The sum of a metric of a node over all labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[node]}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    name = f"highwater_partition_{name}"
    return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split()[0] == name)


def write(cluster: ReplicatedCluster, topic: str, nbytes: int, *, partitions: int = 1) -> None:
    """Writes records with acks=all."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    failed = []
    for number in range(nbytes // len(VALUE)):
        producer.produce(
            topic,
            VALUE,
            partition=number % partitions,
            on_delivery=lambda error, _: error and failed.append(error),
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def alter(cluster: ReplicatedCluster, kind: ResourceType, name: str, **configs: str | None) -> None:
    """Sets configs (underscores for dots); removes those that are None."""
    operations = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
    resource = ConfigResource(
        kind,
        name,
        incremental_configs=[
            ConfigEntry(
                key.replace("_", "."), value, incremental_operation=operations[value is None]
            )
            for key, value in configs.items()
        ],
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(TIMEOUT_S)


def throttle(cluster: ReplicatedCluster, rate: str | None) -> None:
    """Sets the throttle as kafka-reassign-partitions does, or removes it for None."""
    for node in cluster.node_ids:
        alter(
            cluster,
            ResourceType.BROKER,
            str(node),
            leader_replication_throttled_rate=rate,
            follower_replication_throttled_rate=rate,
            **{"replica.alter.log.dirs.io.max.bytes.per.second": rate},
        )


@pytest.mark.timeout(120)
def test_logs_are_the_same_by_files_and_by_bytes(
    replicated: ReplicatedCluster, metrics_ports: dict[int, int]
) -> None:
    topic = make_replicated_topic(replicated.bootstrap, "both", partitions=3)
    write(replicated, topic, 24_000_000, partitions=3)
    sizes = [assert_identical_logs(replicated, topic, partition) for partition in range(3)]
    assert sum(sizes) > 24_000_000
    for node in replicated.node_ids:
        received = metric(metrics_ports, node, "replicated_bytes_in_total")
        from_files = metric(metrics_ports, node, "replicated_file_bytes_in_total")
        assert received > 10_000_000
        if node == BYTES_ONLY:
            assert from_files == 0
        else:
            assert from_files > received / 2
            assert metric(metrics_ports, node, "replicated_file_misses_total") < 20


@pytest.mark.timeout(180)
@pytest.mark.parametrize("by_files", [True, pytest.param(False, marks=pytest.mark.full)])
def test_only_followers_that_catch_up_are_throttled(
    replicated: ReplicatedCluster, metrics_ports: dict[int, int], by_files: bool
) -> None:
    behind = 2 if by_files else BYTES_ONLY
    topic = make_replicated_topic(
        replicated.bootstrap, "behind", partitions=1, configs={"min.insync.replicas": "1"}
    )
    other = make_replicated_topic(
        replicated.bootstrap, "other", partitions=1, configs={"min.insync.replicas": "2"}
    )
    throttle(replicated, str(RATE))  # While all nodes are there: clients send each its own.
    replicated.kill_node(behind)
    wait_for_view(
        replicated.bootstrap,
        topic,
        lambda parts: behind not in parts[0].isr and parts[0].leader not in (-1, behind),
        timeout_s=ISR_S_MAX,
        what="an ISR without the node",
    )
    write(replicated, topic, 24 * MIB)
    alter(
        replicated,
        ResourceType.TOPIC,
        topic,
        leader_replication_throttled_replicas="*",
        follower_replication_throttled_replicas=f"0:{behind}",
    )
    begun = time.monotonic()
    replicated.restart_node(behind)
    directory = replicated.data_dir(behind) / f"{topic}-0"
    wait_until(lambda: log_bytes(directory), timeout_s=ISR_S_MAX, what="first records")
    at, before = time.monotonic(), len(log_bytes(directory))
    while time.monotonic() < at + 4:
        sent = time.monotonic()
        write(replicated, other, len(VALUE))
        assert time.monotonic() - sent < 2, "in-sync traffic is not held back"
        time.sleep(0.2)
    copied, took_s = len(log_bytes(directory)) - before, time.monotonic() - at
    assert copied <= RATE * took_s + 1.2 * MIB
    assert copied >= RATE * took_s / 4, "it is throttled, not stopped"
    assert len(log_bytes(directory)) <= RATE * (time.monotonic() - begun) + 1.2 * MIB
    assert behind not in view(replicated.bootstrap, topic)[0].isr
    assert metric(metrics_ports, behind, "throttled_replication_bytes_total") > 0
    throttle(replicated, None)
    removed = time.monotonic()
    wait_until(
        lambda: behind in view(replicated.bootstrap, topic)[0].isr,
        timeout_s=ISR_S_MAX,
        what="a full ISR",
    )
    left = 24 * MIB - copied - before
    assert time.monotonic() - removed < left / RATE / 2, "as fast as it can be"
    assert_identical_logs(replicated, topic, 0)
    wait_until(replicated.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
