"""A leader ends whose partitions have other replicas; producers do not retry.

After SIGTERM other replicas lead before the node ends. After kill -9 an idempotent producer waits
for the next leader.
"""

from __future__ import annotations

import itertools
import time

import pytest

from tests.cluster.test_node_restart import RawProducer
from tests.cluster.traffic import read_all
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

SHAPE = Shape(controllers=1, etcd_members=1)
FORMS = ("mixed", "split", "grpcio")
"""Each ends its streams in its own way."""
LEADER, ALL = 1, -1
# Topics, and how producers, which do not retry, write to them.
PRODUCERS = {"plain": (False, ALL), "idempotent": (True, ALL), "leader-only": (False, LEADER)}
PAUSE_S_MAX = 1.0
"""The goal is 0.3 s, which `make bench-failover` measures; a test may run on a busy machine."""
STOP_S_MAX = 5.0
ANSWERS_S_MAX = 20.0
"""Until the next leader has answered; the requests themselves have 30 s."""


@pytest.mark.timeout(120)
def test_producers_hardly_notice_that_their_leader_is_stopped(replicated: ReplicatedCluster):
    topics = [
        make_replicated_topic(
            replicated.bootstrap, name, partitions=1, configs={"min.insync.replicas": "2"}
        )
        for name in PRODUCERS
    ]
    wait_until(replicated.is_whole, timeout_s=30, what="full ISRs")
    leaders = {view(replicated.bootstrap, topic)[0].leader for topic in topics}
    for leader in leaders:
        _stop_one(replicated, topics, leader)
        replicated.restart_node(leader)
        wait_until(replicated.is_whole, timeout_s=30, what="full ISRs")


def _stop_one(cluster: ReplicatedCluster, topics: list[str], node: int) -> None:
    before = [len(read_all(cluster.bootstrap, topic, 1)) for topic in topics]
    producers = [
        RawProducer(cluster.bootstrap, topic, 0, idempotent=idempotent, acks=acks)
        for topic, (idempotent, acks) in zip(topics, PRODUCERS.values(), strict=True)
    ]
    for one in producers:
        one.start()
    time.sleep(1)
    stopped_s = time.monotonic()
    assert cluster.terminate_node(node) == 0
    assert time.monotonic() - stopped_s < STOP_S_MAX
    time.sleep(0.5)
    for one in producers:
        one.stop()

    for topic, one, known in zip(topics, producers, before, strict=True):
        assert one.refused == {}, topic
        numbers = [int(value) for value in read_all(cluster.bootstrap, topic, 1)[known:]]
        assert numbers == list(range(len(one.answers))), "each once, in order, and none is lost"
        assert _longest_pause_s(one) < PAUSE_S_MAX


@pytest.mark.timeout(150)
def test_an_idempotent_producer_sees_no_error_when_its_leader_is_killed(
    replicated: ReplicatedCluster,
):
    topic = make_replicated_topic(
        replicated.bootstrap, "killed", partitions=1, configs={"min.insync.replicas": "2"}
    )
    for _ in range(2):
        wait_until(replicated.is_whole, timeout_s=30, what="full ISRs")
        leader = view(replicated.bootstrap, topic)[0].leader
        known = len(read_all(replicated.bootstrap, topic, 1))
        producer = RawProducer(replicated.bootstrap, topic, 0, idempotent=True, acks=ALL)
        producer.start()
        time.sleep(1)
        replicated.kill_node(leader)
        killed_s = time.monotonic()
        wait_until(
            lambda one=producer, since_s=killed_s: one.answers[-1].sent_s > since_s,
            timeout_s=ANSWERS_S_MAX,
            what="answers of the next leader",
        )
        producer.stop()
        assert producer.refused == {}
        numbers = [int(value) for value in read_all(replicated.bootstrap, topic, 1)[known:]]
        assert numbers == list(range(len(producer.answers))), "each once, in order, none is lost"
        replicated.restart_node(leader)


def _longest_pause_s(producer: RawProducer) -> float:
    """The longest time without an answer."""
    answered_s = sorted(answer.sent_s + answer.took_s for answer in producer.answers)
    return max(after - before for before, after in itertools.pairwise(answered_s))
