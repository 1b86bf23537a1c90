"""Metrics of leaders, followers, throttles and the image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from highwater.partition.metrics.replication import ReplicationCollector
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from tests.support.controller_images import image_with, topic_state
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says
from tests.unit.partition.replication.leader_side import Leader

Value = Callable[..., float | None]


class Service:
    """The parts of a node that metrics read."""

    def __init__(self, directory: Path) -> None:
        self.leader = Leader(directory)
        self.plane = self.leader.plane
        self.replication = SimpleNamespace(
            proposals=SimpleNamespace(shrinks=3, expands=2),
            traffic=ReplicaTraffic(),
            leader_throttle=Throttle(Side.LEADER),
            follower_throttle=Throttle(Side.FOLLOWER),
        )
        self.replicas = SimpleNamespace(
            elections=4,
            offline={b"a": (0, 1), b"b": (2,)},
            conversions=SimpleNamespace(conversions=5, waiting_bytes=600),
        )
        self.watch = SimpleNamespace(image=None)
        self.membership = SimpleNamespace(node_id=NODE)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


@pytest.fixture
def value(service: Service) -> Value:
    registry = CollectorRegistry()
    registry.register(
        ReplicationCollector(
            plane=service.plane,
            replicas=service.replicas,
            replication=service.replication,
            watch=service.watch,
            membership=service.membership,
        )
    )
    return lambda name, **labels: registry.get_sample_value(f"highwater_partition_{name}", labels)


def test_partitions_that_are_led_here(service: Service, value: Value) -> None:
    leader = service.leader
    for n in range(4):
        leader.add_led(n, isr=(NODE, 2, 3))
    image_says(
        leader.add_led(4), leader=NODE, epoch=EPOCH, replicas=(1, 2, 3), isr=(NODE,), min_isr=2
    )
    followed = leader.add(5, lead=False)
    follow(followed, 2, EPOCH)
    assert value("under_replicated_partitions") == 1
    assert value("under_min_isr_partitions") == 1


def test_the_lag_is_the_worst_of_each_follower(service: Service, value: Value) -> None:
    for n in range(2):
        replica = service.leader.add_led(n)
        service.leader.append(*[make_batch() for _ in range(10)], partition=n)
        follower_fetched(replica, 2, 10 - 3 * n)
    assert value("follower_lag_records", node="2") == 3
    assert value("follower_lag_records", node="3") == 10, "it has not fetched: it may have nothing"


def test_counters(service: Service, value: Value) -> None:
    traffic = service.replication.traffic
    traffic.sent(2, 100)
    traffic.received(3, 70, 60)
    traffic.missed_places = 5
    service.replication.follower_throttle.passed_bytes = 9
    service.replication.leader_throttle.holds = 8
    assert value("replicated_bytes_out_total", node="2") == 100
    assert value("replicated_bytes_in_total", node="3") == 70
    assert value("replicated_file_bytes_in_total", node="3") == 60
    assert value("replicated_file_misses_total") == 5
    assert value("throttled_replication_bytes_total", side="follower") == 9
    assert value("throttled_replication_holds_total", side="leader") == 8
    assert (value("isr_shrinks_total"), value("isr_expands_total")) == (3, 2)
    assert (value("leader_elections_total"), value("offline_replicas")) == (4, 3)
    assert (value("conversions_total"), value("conversion_waiting_bytes")) == (5, 600)


def test_reassigning_partitions_are_those_that_this_node_leads(
    service: Service, value: Value
) -> None:
    assert value("reassigning_partitions") == 0
    topic = topic_state("orders", [(1, 2, 3)] * 4)
    states = [replace(state, leader=NodeId(NODE)) for state in topic.partitions]
    states[0] = replace(states[0], adding_replicas=(NodeId(3),))
    states[1] = replace(states[1], removing_replicas=(NodeId(2),))
    states[2] = replace(states[2], leader=NodeId(2), adding_replicas=(NodeId(3),))
    image: ClusterImage = image_with(3, topics=[replace(topic, partitions=tuple(states))])
    service.watch.image = image
    assert value("reassigning_partitions") == 2
