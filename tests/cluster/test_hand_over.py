"""Live leaders hand over: by ElectLeaders, and by a reassignment that removes the leader.

Raw producers do not retry, so that unknown outcomes and lost records are noticed.
"""

from __future__ import annotations

import itertools
import time

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.test_node_restart import RawProducer
from tests.cluster.traffic import read_all
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

SHAPE = Shape(nodes=4, controllers=1, etcd_members=1)
FORMS = ("mixed", "split", "grpcio")
LEADER, ALL = 1, -1
PRODUCERS = {"plain": (False, ALL), "idempotent": (True, ALL), "leader-only": (False, LEADER)}
"""Topics, and how producers write to them."""
PAUSE_S_MAX = 1.5
MOVES = 3


@pytest.mark.timeout(150)
def test_nothing_is_lost_or_in_doubt_when_leaders_give_way(replicated: ReplicatedCluster):
    topics = [
        make_replicated_topic(
            replicated.bootstrap, name, partitions=1, configs={"min.insync.replicas": "2"}
        )
        for name in PRODUCERS
    ]
    wait_until(replicated.is_whole, timeout_s=30, what="full ISRs")
    producers = [
        RawProducer(replicated.bootstrap, topic, 0, idempotent=idempotent, acks=acks)
        for topic, (idempotent, acks) in zip(topics, PRODUCERS.values(), strict=True)
    ]
    for one in producers:
        one.start()
    time.sleep(1)
    for _ in range(MOVES):
        for topic in topics:
            _elect_next(replicated, topic)
    for topic in topics:
        _remove_leader(replicated, topic)
    time.sleep(0.5)
    for one in producers:
        one.stop()
    for topic, one in zip(topics, producers, strict=True):
        assert one.refused == {}, topic
        numbers = [int(value) for value in read_all(replicated.bootstrap, topic, 1)]
        assert numbers == list(range(len(one.answers))), "each once, in order, and none is lost"
        assert _longest_pause_s(one) < PAUSE_S_MAX


def _elect_next(cluster: ReplicatedCluster, topic: str) -> None:
    """Reorders the replicas and elects the new preferred leader."""
    part = view(cluster.bootstrap, topic)[0]
    first, *rest = part.replicas if part.leader == part.replicas[0] else (part.leader,)
    order = [*rest, first]
    _reassign(cluster, topic, order)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    answer = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)])
    assert [one.error for one in answer.result(20)] == [None]
    wait_for_view(
        cluster.bootstrap,
        topic,
        lambda parts: parts[0].leader == order[0],
        timeout_s=10,
        what="the preferred leader",
    )


def _remove_leader(cluster: ReplicatedCluster, topic: str) -> None:
    part = view(cluster.bootstrap, topic)[0]
    (new,) = {1, 2, 3, 4}.difference(part.replicas)
    target = [*(node for node in part.replicas if node != part.leader), new]
    _reassign(cluster, topic, target)
    wait_for_view(
        cluster.bootstrap,
        topic,
        lambda parts: list(parts[0].replicas) == target and parts[0].leader != part.leader,
        timeout_s=45,
        what="the end of the move",
    )


def _reassign(cluster: ReplicatedCluster, topic: str, replicas: list[int]) -> None:
    with KafkaClient(cluster.bootstrap) as client:
        client.reassign(topic, {0: replicas})
    wait_for_view(
        cluster.bootstrap,
        topic,
        lambda parts: parts[0].replicas[0] == replicas[0],
        timeout_s=10,
        what="the other order",
    )


def _longest_pause_s(producer: RawProducer) -> float:
    """The longest time without an answer."""
    answered_s = sorted(answer.sent_s + answer.took_s for answer in producer.answers)
    return max(after - before for before, after in itertools.pairwise(answered_s))
