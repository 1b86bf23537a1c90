"""Disks that hang, flush.messages, and hand-overs that are given up: the seeds meet all of them."""

from collections import Counter

import pytest

from highwater.partition.core import replica_events as on
from highwater.partition.core.transitions import Role
from tests.sim.asked_hand_over import AskedHandOver
from tests.sim.hunt import try_seed
from tests.sim.node import NodeProcess
from tests.sim.options import draw

SEEDS = 80
SLOW_DISKS = tuple(s for s in range(2_000) if "disk_hangs" in draw(s).faults)[:SEEDS]
FLUSHING = tuple(s for s in range(2_000) if draw(s).flush_messages)[:SEEDS]
LEAVING = tuple(s for s in range(2_000) if "successor_leaves" in draw(s).faults)[:SEEDS]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[type, Role]]:
    """How many events came in which role."""
    counts: Counter[tuple[type, Role]] = Counter()
    handle = NodeProcess.handle

    def count(process: NodeProcess, event: on.Event) -> None:
        counts[type(event), process.replica.role] += 1
        handle(process, event)

    monkeypatch.setattr(NodeProcess, "handle", count)
    return counts


def failures(seeds: tuple[int, ...]) -> set[str]:
    return {try_seed(seed).failure for seed in seeds}


def test_writes_end_late_in_other_roles(heard: Counter[tuple[type, Role]]) -> None:
    assert failures(SLOW_DISKS) == {""}
    assert heard[on.WrittenLate, Role.LEADER] >= 3
    assert heard[on.WrittenLate, Role.FOLLOWER] >= 3


def test_flushes_end_while_followers_wait_for_them(heard: Counter[tuple[type, Role]]) -> None:
    assert failures(FLUSHING) == {""}
    assert heard[on.LogEndMoved, Role.FOLLOWER] > 5 * SEEDS


def test_leaders_go_on_when_their_successors_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the leader has said that it is ready, and after."""
    given_up: Counter[tuple[bool, bool]] = Counter()
    lead_on = AskedHandOver.lead_on

    def count(asked: AskedHandOver) -> None:
        if asked.successor is not None:
            given_up[asked.can_lead(asked.successor), asked._ready] += 1
        lead_on(asked)

    monkeypatch.setattr(AskedHandOver, "lead_on", count)
    assert failures(LEAVING) == {""}
    left = False
    assert given_up[left, False] >= 2
    assert given_up[left, True] >= 2
