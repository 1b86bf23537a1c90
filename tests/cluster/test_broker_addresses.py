"""The address of a node whose process has a gateway is always that of this gateway.

librdkafka's transactional producers keep the address that their coordinator had when they found it, and
come back to it for as long as the node coordinates them, whatever Metadata says later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.model.errors import HighwaterError
from tests.cluster import replicated as three
from tests.support.node_network import NodeNetwork
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

LOOK_S = 0.01


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[tuple[ReplicatedCluster, NodeNetwork]]:
    """Nodes with gateways, each with a network address of its own."""
    with three.apart(tmp_path, three.in_form(three.SHAPE, "combined")) as made:
        yield made


class Watcher(threading.Thread):
    """Asks a gateway for Metadata all the time, each time as a client that has just connected or, with
    `stays`, as one that knows what it was told before.
    """

    def __init__(self, address: str, *, stays: bool) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._stays = stays
        self._ends = threading.Event()
        self.seen: dict[int, set[str]] = {}
        """By node, its addresses."""
        self.numbers: list[int] = []
        """How many brokers each answer had."""

    def run(self) -> None:
        while not self._ends.is_set():
            try:
                with KafkaClient(self._address) as client:
                    self._look(client)
            except HighwaterError:
                time.sleep(LOOK_S)  # The network is cut, or comes back.

    def _look(self, client: KafkaClient) -> None:
        while not self._ends.wait(LOOK_S):
            brokers = client.metadata([]).brokers
            self.numbers.append(len(brokers))
            for broker in brokers:
                self.seen.setdefault(broker.node_id, set()).add(f"{broker.host}:{broker.port}")
            if not self._stays:
                return

    def stop(self) -> None:
        self._ends.set()
        self.join(10)
        assert not self.is_alive()


def test_no_other_gateway_stands_for_a_node_that_comes_back(
    apart: tuple[ReplicatedCluster, NodeNetwork],
) -> None:
    cluster, network = apart
    own = {node: {cluster.own_address(node)} for node in cluster.node_ids}
    watchers = [Watcher(cluster.own_address(3), stays=stays) for stays in (False, True)]
    for one in watchers:
        one.start()
    wait_until(lambda: all(one.seen == own for one in watchers), timeout_s=20, what="every address")
    cluster.kill_node(1)
    wait_until(lambda: cluster.store.is_fenced(1), timeout_s=20, what="the end of the session")
    wait_until(
        lambda: all(one.numbers[-1:] == [2] for one in watchers), timeout_s=20, what="two brokers"
    )
    cluster.restart_node(1)
    _cut_off_from_the_controller(cluster, network)
    wait_until(
        lambda: all(one.numbers[-1:] == [3] for one in watchers), timeout_s=20, what="all of them"
    )
    for one in watchers:
        one.stop()
        assert one.seen == own


def _cut_off_from_the_controller(cluster: ReplicatedCluster, network: NodeNetwork) -> None:
    """All nodes are fenced, and their gateways gone, until they hear one another again."""
    for node in cluster.node_ids:
        network.cut_port(node, cluster.ports.controllers[1])

    def all_fenced() -> bool:
        return all(cluster.store.is_fenced(node) for node in cluster.node_ids)

    wait_until(all_fenced, timeout_s=20, what="the end of all sessions")
    network.heal()
    wait_until(
        lambda: not any(cluster.store.is_fenced(node) for node in cluster.node_ids),
        timeout_s=three.RECOVERY_S_MAX,
        what="all nodes, unfenced",
    )
