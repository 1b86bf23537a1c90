"""Two gateways on one host whose port blocks overlap: no port stands for two things.

The block in front ends where the next one begins (`highwater.model.block_overlaps`); both logs tell of
it, and clients reach every broker that Metadata names, by either gateway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster import replicated as three
from tests.cluster.runner import HOST
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.cluster_view import view
from tests.support.embedded_cluster import wait_for_port
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import ManagedProcess, wait_until
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

APART = 2
"""Ports between the two bootstrap ports: less than there are nodes."""
SHAPE = replace(three.SHAPE, room_in_front=APART)
PARTITIONS = 6
FOLLOWED_S_MAX = 20.0


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """Three nodes and the gateway whose block begins later."""
    with three.running(tmp_path, SHAPE) as made:
        yield made


@pytest.fixture
def front(behind: ReplicatedCluster, tmp_path: Path) -> Iterator[ManagedProcess]:
    """The gateway whose block is cut; it listens."""
    port = behind.ports.gateway_block(1)[0] - APART
    made = ManagedProcess(
        "gateway-front",
        behind.commands.gateway("gateway-front", port),
        log_path=tmp_path / "gateway-front.log",
    )
    try:
        made.start()
        wait_for_port(made, HOST, port)
        yield made
    finally:
        made.kill()


def test_the_block_in_front_ends_where_the_next_one_begins(
    behind: ReplicatedCluster, front: ManagedProcess
) -> None:
    later = behind.ports.gateway_block(1)
    first = later[0] - APART
    check_cut(behind, front, first, starts=1)
    topic = make_replicated_topic(f"{HOST}:{first}", "t", partitions=PARTITIONS)
    assert {p.leader for p in view(f"{HOST}:{first}", topic).values()} == {1, 2, 3}
    producer = NumberedProducer(f"{HOST}:{first}", topic)
    producer.send(300)
    producer.flush()

    assert front.stop() == 0
    alone = {node: later[node] for node in (1, 2, 3)}
    wait_until(
        lambda: brokers(later[0]) == alone,
        timeout_s=FOLLOWED_S_MAX,
        what="all nodes at one gateway",
    )
    assert ports_of(behind.process("gateway-1").pid) == set(later), "its own block, and no more"
    producer.send(300)  # By what Metadata said: the gateway in front was the bootstrap address.
    producer.flush()

    front.start()
    wait_for_port(front, HOST, first)
    check_cut(behind, front, first, starts=2)
    producer.send(300)
    producer.flush()
    assert not producer.errors
    for port in (first, later[0]):
        found = read_all(f"{HOST}:{port}", topic, PARTITIONS)
        assert sorted(found) == sorted(producer.acknowledged)


def check_cut(behind: ReplicatedCluster, front: ManagedProcess, first: int, *, starts: int) -> None:
    """After so many starts of the gateway in front: asserts who listens on what, who is told, and that every broker of Metadata answers."""
    later = behind.ports.gateway_block(1)
    wait_until(
        lambda: (
            ports_of(front.pid) == set(range(first, later[0]))
            and ports_of(behind.process("gateway-1").pid) == set(later)
        ),
        timeout_s=FOLLOWED_S_MAX,
        what="blocks that are cut by the rule",
    )
    wait_until(
        lambda: brokers(first) == brokers(later[0]) and len(brokers(first)) == 3,
        timeout_s=FOLLOWED_S_MAX,
        what="the same brokers at both gateways",
    )
    found = brokers(first)
    assert found[1] in (first + 1, later[1]), "both may serve node 1"
    assert {node: found[node] for node in (2, 3)} == {2: later[2], 3: later[3]}
    for port in found.values():
        assert brokers(port) == found
    wait_told(behind.process("controller-1"), "gateway_ports_overlap", starts)
    wait_told(front, "port_not_opened", starts)


def wait_told(process: ManagedProcess, event: str, times: int) -> None:
    """Waits until the log has said so often which ports are whose."""

    def was_told() -> bool:
        lines = process.lines_with(f'"{event}"')
        told = [line for line in lines if "bootstrap ports on one host have to differ" in line]
        return len(told) >= times

    wait_until(was_told, timeout_s=FOLLOWED_S_MAX, what=f"{event} in the log of {process.name}")


def brokers(port: int) -> dict[int, int]:
    """The ports of all brokers in the Metadata that the gateway at a port gives."""
    with KafkaClient(f"{HOST}:{port}", timeout_s=5) as client:
        return {broker.node_id: broker.port for broker in client.metadata([]).brokers}


def ports_of(pid: int) -> set[int]:
    """On which a process listens."""
    found = psutil.Process(pid).net_connections("tcp")
    return {c.laddr.port for c in found if c.status == psutil.CONN_LISTEN}
