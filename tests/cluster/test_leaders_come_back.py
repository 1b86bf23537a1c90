"""A node that comes back leads its partitions again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.runner import Up
from tests.support.cluster_view import Partitions, is_whole, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until

NODE = 2
PARTITIONS = 6
BACK_S = 40.0
"""Time for a start, catching up, and two rounds of the balancing task, on a busy machine."""

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


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="stopped"),
        pytest.param(signal.SIGKILL, id="killed", marks=pytest.mark.full),
    ],
)
def test_leaders_come_back(balanced: Up, number: signal.Signals) -> None:
    topic = make_replicated_topic(balanced.bootstrap, "numbers", partitions=PARTITIONS)

    def wait(holds: Callable[[Partitions], bool], what: str) -> Partitions:
        return wait_for_view(balanced.bootstrap, topic, holds, timeout_s=BACK_S, what=what)

    before = wait(_balanced, "preferred leaders")
    led = {p.partition for p in before.values() if p.leader == NODE}
    assert led, "two of six partitions at least"
    pid = balanced.pids()[balanced.node_process(NODE)]
    os.kill(pid, number)
    moved = wait(lambda now: all(now[n].leader not in (NODE, -1) for n in led), "other leaders")
    assert all(NODE not in moved[n].isr for n in led)
    wait_until(
        lambda: balanced.pids().get(balanced.node_process(NODE), pid) != pid,
        timeout_s=BACK_S,
        what="a new process of the node",
    )
    after = wait(lambda now: _balanced(now) and is_whole(now), "the node at the head again")
    for partition in led:
        epochs = before[partition].leader_epoch, after[partition].leader_epoch
        assert epochs[1] >= epochs[0] + 2, "away and back"
