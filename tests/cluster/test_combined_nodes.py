"""Nodes that are their own gateways: where clients connect, who takes over a port, and what it costs."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.model.errors import HighwaterError
from tests.cluster import replicated as three
from tests.cluster.runner import HOST, Up
from tests.cluster.test_metrics import scrape, since, total
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster

PARTITIONS = 6
TAKEN_OVER_S_MAX = 2.0
"""A process looks five times a second, and a test may run on a busy machine."""

COMBINED3 = pytest.mark.parametrize("up", ["combined3"], indirect=True)
MIXED = replace(three.SHAPE, combined=2, gateways=1)
BALANCED = replace(MIXED, balancer=True)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    """Nodes 1 and 2 with gateways, node 3 without, and a gateway without a node."""
    with three.running(tmp_path_factory.mktemp("mixed"), MIXED) as made:
        yield made


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """The same, each gateway on an address of its own, behind a balancer."""
    with three.running(tmp_path, BALANCED) as made:
        yield made


def addresses(bootstrap: str) -> dict[int, int]:
    """The ports of all brokers in Metadata."""
    brokers = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers
    return {broker.id: broker.port for broker in brokers.values()}


@COMBINED3
def test_a_client_that_follows_metadata_never_crosses_a_hop(up: Up):
    own = {node: up.port + node for node in (1, 2, 3)}
    for port in (up.port, *own.values()):
        wait_until(
            lambda at=port: addresses(f"{HOST}:{at}") == own,
            timeout_s=20,
            what=f"every node's own port in Metadata on port {port}",
        )
    topic = make_replicated_topic(up.bootstrap, "t", partitions=PARTITIONS)
    assert {p.leader for p in view(up.bootstrap, topic).values()} == set(own)
    before = scrape(up)
    producer = NumberedProducer(up.bootstrap, topic)
    producer.send(2_000)
    producer.flush()
    assert not producer.errors
    assert set(read_all(up.bootstrap, topic, PARTITIONS)) == producer.acknowledged
    seen = since(before, scrape(up))
    assert total(seen, "partition_appended_bytes") > 0
    assert total(seen, "gateway_append_groups_sent") == 0
    assert total(seen, "partition_fetched_bytes") > 0
    assert total(seen, "gateway_fetches_sent") == 0


@COMBINED3
def test_another_process_takes_over_the_bootstrap_port(up: Up):
    assert set(up.pids()) == {"controller", "quota", "node-1", "node-2", "node-3"}
    topic = make_replicated_topic(up.bootstrap, "t", partitions=PARTITIONS)
    producer = NumberedProducer(up.bootstrap, topic)
    producer.send(100)
    assert _holder(up.port, up.pids()) == "node-1"
    for _ in range(3):
        name, started = _holder(up.port, up.pids()), _times_unfenced(up)
        os.kill(up.pids()[name], signal.SIGKILL)
        wait_until(
            lambda was=name: _holder(up.port, up.pids()) not in ("", was),
            timeout_s=TAKEN_OVER_S_MAX,
            what="another process at the bootstrap port",
        )
        assert _connects(up.port)
        producer.send(100)
        wait_until(
            lambda count=started: _times_unfenced(up) > count,
            timeout_s=30,
            what="the node that was killed",
        )
    producer.flush()
    assert not producer.errors
    assert len(producer.acknowledged) == 400
    assert sorted(read_all(up.bootstrap, topic, PARTITIONS)) == sorted(producer.acknowledged)


@COMBINED3
def test_nodes_are_started_again_one_after_another_under_load(up: Up):
    topic = make_replicated_topic(
        up.bootstrap, "t", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
    )
    producer = NumberedProducer(up.bootstrap, topic, partition=0)
    for node in (1, 2, 3):
        started = _times_unfenced(up)
        os.kill(up.pids()[up.node_process(node)], signal.SIGTERM)
        for _ in range(50):
            producer.send(10)
            time.sleep(0.02)
        wait_until(
            lambda count=started: _times_unfenced(up) > count,
            timeout_s=30,
            what=f"node {node} again",
        )
        wait_until(
            lambda: all(len(p.isr) == 3 for p in view(up.bootstrap, topic).values()),
            timeout_s=three.ISR_S_MAX,
            what="full ISRs",
        )
    producer.flush()
    assert not producer.errors
    found = read_all(up.bootstrap, topic, PARTITIONS)
    assert found == [str(n).encode() for n in range(1_500)], "each once, and in order"


@pytest.mark.etcd
def test_a_cluster_may_have_nodes_and_gateways_of_every_kind(mixed: ReplicatedCluster):
    alone = mixed.ports.gateway_block(1)[0]
    # Node 3 is served by the gateway that has no node of its own, also for clients of the others.
    wanted = {1: mixed.ports.shared + 1, 2: mixed.ports.shared + 2, 3: alone + 3}
    for port in (alone, mixed.ports.shared, mixed.ports.shared + 2):
        wait_until(
            lambda at=port: addresses(f"{HOST}:{at}") == wanted,
            timeout_s=20,
            what=f"Metadata on port {port}",
        )
    topic = make_replicated_topic(mixed.bootstrap, "t", partitions=PARTITIONS)
    producer = NumberedProducer(f"{HOST}:{mixed.ports.shared}", topic)
    producer.send(500)
    producer.flush()
    assert not producer.errors
    assert set(read_all(mixed.bootstrap, topic, PARTITIONS)) == producer.acknowledged
    # The ports of node 3 in the block of the nodes are served by one of them, too.
    assert _connects(mixed.ports.shared + 3)


@pytest.mark.etcd
def test_without_its_gateway_a_node_is_served_by_another_s(mixed: ReplicatedCluster):
    alone = mixed.ports.gateway_block(1)[0]
    mixed.process("gateway-1").kill()
    at_others = {1: mixed.ports.shared + 1, 2: mixed.ports.shared + 2, 3: mixed.ports.shared + 3}
    shared = f"{HOST}:{mixed.ports.shared}"
    wait_until(lambda: addresses(shared) == at_others, timeout_s=20, what="node 3 elsewhere")
    topic = make_replicated_topic(shared, "t", partitions=PARTITIONS)
    producer = NumberedProducer(shared, topic)
    producer.send(300)
    mixed.kill_node(1)
    producer.send(300)
    producer.flush()
    assert not producer.errors
    assert set(read_all(shared, topic, PARTITIONS)) == producer.acknowledged
    mixed.start_gateway(1)
    mixed.restart_node(1)
    wanted = {1: mixed.ports.shared + 1, 2: mixed.ports.shared + 2, 3: alone + 3}
    wait_until(lambda: addresses(shared) == wanted, timeout_s=20, what="as it was")


@pytest.mark.etcd
def test_a_balancer_leads_to_a_node_s_own_gateway_while_that_is_there(
    balanced: ReplicatedCluster,
):
    port = balanced.ports.shared
    wanted = {node: port + node for node in (1, 2, 3)}
    wait_until(
        lambda: addresses(balanced.bootstrap) == wanted,
        timeout_s=20,
        what="every node behind the balancer",
    )
    # The balancer looks for gateways every 0.2 s, and refuses clients where it has not seen one.
    for node in (1, 2):
        wait_until(
            partial(_serves_its_port, balanced, node),
            timeout_s=20,
            what=f"node {node}'s own gateway at its port",
        )
    assert "gateway-1" in _served_by(balanced, port, count=12)
    topic = make_replicated_topic(balanced.bootstrap, "t", partitions=PARTITIONS)
    producer = NumberedProducer(balanced.bootstrap, topic)
    producer.send(300)
    balanced.kill_node(1)
    others = {"gateway-1", "node-2"}
    wait_until(
        lambda: bool(found := _served_by(balanced, port + 1, count=4)) and found <= others,
        timeout_s=20,
        what="another gateway at node 1's port",
    )
    producer.send(300)
    balanced.restart_node(1)
    wait_until(
        partial(_serves_its_port, balanced, 1),
        timeout_s=20,
        what="node 1's own gateway at its port again",
    )
    producer.send(300)
    producer.flush()
    assert not producer.errors
    assert set(read_all(balanced.bootstrap, topic, PARTITIONS)) == producer.acknowledged


def _serves_its_port(cluster: ReplicatedCluster, node: int) -> bool:
    return _served_by(cluster, cluster.ports.shared + node, count=12) == {f"node-{node}"}


def _served_by(cluster: ReplicatedCluster, port: int, *, count: int) -> set[str]:
    """The processes that the balancer's clients of a port have, with so many new ones.

    Empty if one of these gets none.
    """
    import psutil

    with ExitStack() as stack:
        try:
            for _ in range(count):
                client = stack.enter_context(KafkaClient(f"{HOST}:{port}", timeout_s=5))
                assert client.live_brokers()
        except HighwaterError:
            return set()
        relays = psutil.Process(cluster.process("balancer").pid).net_connections("tcp")
    names = {cluster.gateway_host(name): name for name in ("node-1", "node-2", "gateway-1")}
    return {
        names[c.raddr.ip]
        for c in relays
        if c.status == psutil.CONN_ESTABLISHED and c.raddr.port == port and c.raddr.ip in names
    }


def _times_unfenced(up: Up) -> int:
    """How many incarnations of nodes the controller has unfenced, by its log."""
    return len(up.process.lines_with('"node_unfenced"'))


def _connects(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=2).close()
    except OSError:
        return False
    return True


def _holder(port: int, pids: dict[str, int]) -> str:
    """The name of the process that listens on a port; empty if none of them does."""
    import psutil

    for name, pid in pids.items():
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.NoSuchProcess:
            continue
        if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections):
            return name
    return ""
