"""A node that comes back leads its partitions again, and those who write meanwhile do not notice.

Raw producers do not retry, so that unknown outcomes and lost records are noticed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.runner import HOST, Up, is_alive
from tests.cluster.test_node_restart import RawProducer
from tests.cluster.traffic import read_all
from tests.support.cluster_view import Partitions, is_whole, view_topics, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until

NODE = 2
OTHER_NODE = 1
PARTITIONS = 3
BACK_S = 40.0
"""Time for a start, catching up, and two rounds of the balancing task, on a busy machine."""
LEADER, ALL = 1, -1
PRODUCERS = {"plain": (False, ALL), "idempotent": (True, ALL), "leader-only": (False, LEADER)}
"""Topics, and how producers write to them."""

FLAGS = ("--set", "controller.leader_imbalance_check_interval_ms=1000")


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[Up]:
    up = Up("combined3", tmp_path, extra=FLAGS)
    try:
        up.start()
        yield up
    finally:
        up.stop()


def _balanced(partitions: Partitions) -> bool:
    return all(p.leader == p.replicas[0] for p in partitions.values())


def _back(partitions: Partitions) -> bool:
    return _balanced(partitions) and is_whole(partitions)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="stopped"),
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.full),
    ],
)
def test_leaders_come_back(balanced: Up, number: signal.Signals) -> None:
    # Node 2's gateway may be the one with the bootstrap port, which others take over after a moment.
    bootstrap = f"{HOST}:{balanced.port + OTHER_NODE}"
    topics = [
        make_replicated_topic(
            bootstrap, name, partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
        )
        for name in PRODUCERS
    ]

    def wait(holds: Callable[[Partitions], bool], what: str) -> list[Partitions]:
        return [
            wait_for_view(bootstrap, topic, holds, timeout_s=BACK_S, what=what) for topic in topics
        ]

    before = wait(_balanced, "preferred leaders")
    led = [next(p.partition for p in now.values() if p.leader == NODE) for now in before]
    pid = balanced.pids()[balanced.node_process(NODE)]
    os.kill(pid, number)
    moved = wait(lambda now: all(p.leader not in (NODE, -1) for p in now.values()), "other leaders")
    assert all(NODE not in now[n].isr for now, n in zip(moved, led, strict=True))
    wait_until(lambda: not is_alive(pid), timeout_s=BACK_S, what="the end of the node's gateway")
    producers = _start_producers(bootstrap, topics, led)
    now = view_topics(bootstrap)
    assert all(now[topic][n].leader != NODE for topic, n in zip(topics, led, strict=True))

    after = wait(_back, "the node at the head again")
    back_s = time.monotonic()
    for one in producers:
        wait_until(partial(_answered_since, one, back_s), timeout_s=10, what="an answer")
        one.stop()
    assert balanced.pids()[balanced.node_process(NODE)] != pid
    for topic, n, was, came, one in zip(topics, led, before, after, producers, strict=True):
        assert came[n].leader_epoch >= was[n].leader_epoch + 2, "away and back"
        assert one.refused == {}, f"{topic}: nothing is in doubt"
        numbers = [int(value) for value in read_all(bootstrap, topic, PARTITIONS)]
        assert numbers == list(range(len(one.answers))), "each once, in order, and none is lost"


def _start_producers(bootstrap: str, topics: list[str], partitions: list[int]) -> list[RawProducer]:
    """Starts one for each topic; returns when all have had answers."""
    started = [
        RawProducer(bootstrap, topic, partition, idempotent=idempotent, acks=acks)
        for topic, partition, (idempotent, acks) in zip(
            topics, partitions, PRODUCERS.values(), strict=True
        )
    ]
    for one in started:
        one.start()
    for one in started:
        wait_until(partial(_answered_since, one, 0), timeout_s=10, what="an answer")
    return started


def _answered_since(one: RawProducer, since_s: float) -> bool:
    return bool(one.answers) and one.answers[-1].sent_s > since_s
