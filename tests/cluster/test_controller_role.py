"""A small cluster: three processes, each a node, its gateway and a controller; only etcd beside them.

The process of the active controller is killed, stopped and paused: with it goes a node, its leaders and
its gateway.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cluster import replicated as three
from tests.cluster.test_combined_nodes import addresses
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

HOST = "127.0.0.1"
NODES = (1, 2, 3)
PARTITIONS = 6
SHAPE = replace(
    three.SHAPE, controllers=len(NODES), controllers_in_nodes=True, combined=len(NODES), gateways=0
)
ELECTED_S_MAX = 3.0
"""Below the lease of 5 s: who is connected to a process that has ended does not wait for that."""
LEASE_S_MAX = 12.0
"""For a process that hangs: its lease, and what etcd takes to end it."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with three.running(tmp_path_factory.mktemp("roles"), SHAPE) as made:
        yield made


@pytest.fixture(autouse=True)
def _whole(small: ReplicatedCluster) -> Iterator[None]:
    yield
    three.heal(small)
    # A process that was paused says so.
    assert small.complaints(expected=("event_loop_stalled",)) == []


class Load:
    """A topic that needs two of three replicas, and a producer that never learns of refusals."""

    def __init__(self, small: ReplicatedCluster) -> None:
        self._bootstrap = small.bootstraps
        self._shared_port = small.ports.shared
        self._topic = make_replicated_topic(
            self._bootstrap, "t", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
        )
        self._producer = NumberedProducer(self._bootstrap, self._topic)
        self._sent = 0
        self._committed = 0

    def send(self, seconds: float) -> None:
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s:
            self._producer.send(10)
            self._sent += 10
            time.sleep(0.02)

    def commit(self) -> None:
        """The next offset of a group; checks that the group has the former one."""
        group = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._topic})
        at = TopicPartition(self._topic, 0)
        try:
            (found,) = group.committed([at], timeout=three.RECOVERY_S_MAX)
            assert max(found.offset, 0) == self._committed
            self._committed += 1
            at.offset = self._committed
            group.commit(offsets=[at], asynchronous=False)
        finally:
            group.close()

    def leaders(self, asked: int) -> set[int]:
        """By a node's own port: a process that hangs keeps the shared one."""
        found = view(f"{HOST}:{self._shared_port + asked}", self._topic)
        return {one.leader for one in found.values()}

    def check(self) -> None:
        """Everything was acknowledged, and is there once."""
        self._producer.flush()
        assert self._producer.errors == []
        assert len(self._producer.acknowledged) == self._sent > 0
        found = read_all(self._bootstrap, self._topic, PARTITIONS)
        assert sorted(found) == sorted(self._producer.acknowledged)


def wait_for_another(small: ReplicatedCluster, former: str, timeout_s: float) -> str:
    """The process of the controller that leads after `former`."""
    wait_until(
        lambda: small.standing_controllers()[:1] not in ([], [former]),
        timeout_s=timeout_s,
        what=f"another active controller than that of {former}",
    )
    return small.active_controller()


def wait_until_all_stand(small: ReplicatedCluster) -> None:
    wait_until(
        lambda: sorted(small.standing_controllers()) == [f"node-{node}" for node in NODES],
        timeout_s=three.RECOVERY_S_MAX,
        what="three candidates",
    )


def number(process: str) -> int:
    return int(process.rpartition("-")[2])


def test_three_processes_are_a_cluster(small):
    assert small.names == ("node-1", "node-2", "node-3")
    wait_until_all_stand(small)
    own = {node: small.ports.shared + node for node in NODES}
    for port in (small.ports.shared, *own.values()):
        wait_until(
            lambda at=port: addresses(f"{HOST}:{at}") == own,
            timeout_s=20,
            what=f"every node's own port in Metadata on port {port}",
        )
    load = Load(small)
    assert load.leaders(1) == set(NODES)
    load.send(0.5)
    load.check()


def test_killing_the_process_of_the_active_controller_loses_nothing(small):
    load = Load(small)
    for _ in range(2):
        victim = small.active_controller()
        load.send(0.5)
        load.commit()
        small.kill_node(number(victim))
        wait_for_another(small, victim, ELECTED_S_MAX)
        load.send(0.5)
        others = set(NODES) - {number(victim)}
        wait_until(
            lambda left=others: load.leaders(min(left)) == left,
            timeout_s=three.RECOVERY_S_MAX,
            what="leaders among the other two",
        )
        load.commit()
        assert make_replicated_topic(small.bootstraps, "new", partitions=1, replication_factor=2)
        load.send(0.5)
        small.restart_node(number(victim))
        wait_until_all_stand(small)
        wait_until(small.is_whole, timeout_s=three.ISR_S_MAX, what="full ISRs")
        load.send(0.5)
    load.check()


def test_the_process_of_the_active_controller_stops_in_good_order(small):
    load = Load(small)
    load.send(0.5)
    victim = small.active_controller()
    assert small.terminate_node(number(victim)) == 0
    wait_for_another(small, victim, ELECTED_S_MAX)
    load.send(0.5)
    small.restart_node(number(victim))
    wait_until_all_stand(small)
    load.check()


@pytest.mark.full
def test_a_process_that_hangs_leads_neither_cluster_nor_partitions(small):
    load = Load(small)
    load.send(0.5)
    victim = small.active_controller()
    small.pause(victim)
    wait_for_another(small, victim, LEASE_S_MAX)
    load.send(0.5)
    others = set(NODES) - {number(victim)}
    wait_until(
        lambda: load.leaders(min(others)) == others,
        timeout_s=three.RECOVERY_S_MAX,
        what="leaders among the other two",
    )
    small.resume(victim)
    load.send(0.5)
    wait_until_all_stand(small)
    wait_until(small.is_whole, timeout_s=three.ISR_S_MAX, what="full ISRs")
    assert small.active_controller() != victim
    load.check()


@pytest.mark.full
def test_all_processes_killed_at_once_come_back_with_everything(small):
    load = Load(small)
    load.send(0.5)
    small.kill_everything()
    small.start_everything()
    wait_until_all_stand(small)
    load.send(0.5)
    load.check()
