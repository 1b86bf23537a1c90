"""Every order of steps within bounds, and that the search would see a bug."""

from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core import reassign
from highwater.controller.core.election import Candidates, elect
from highwater.model.cluster import PartitionState
from highwater.model.ids import NodeId
from highwater.partition.core.replica import Replica
from tests.sim import model
from tests.sim.bugs import (
    AdmitsAnybody,
    CommitsBelowMinIsr,
    CountsCommittedIsr,
    TruncatesToHighWatermark,
)
from tests.sim.exhaustive import Bounds, explore

MOVING = Bounds(records=1, partition_epochs=5, size=2, targets=((1,), (1, 2)), lost_answers=False)
THREE_IN_ONE_EPOCH = Bounds(records=1, leader_epochs=1, partition_epochs=4, min_isr=2)
"""ISRs of three replicas that shrink and grow, with what may be lost of it."""
SMALL = Bounds(records=1, leader_epochs=3, partition_epochs=3, size=2)
THREE = Bounds(records=1, partition_epochs=3, lost_answers=False)
SHORT_LOGS = Bounds(records=2, leader_epochs=3, partition_epochs=3, lost_answers=False)
"""Two elections one after the other among three replicas, whose logs diverge after the first record."""


def test_two_replicas() -> None:
    report = explore(SMALL)
    assert report.failure == "", "\n".join(report.story)
    assert report.states > 500


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "bounds",
    [
        THREE,
        replace(THREE, min_isr=2),
        pytest.param(replace(SHORT_LOGS, min_isr=2), marks=pytest.mark.full),
        Bounds(records=2, partition_epochs=4, size=2),
        Bounds(leader_epochs=4, partition_epochs=5, size=2, lost_answers=False, lost_logs=True),
        MOVING,
        pytest.param(THREE_IN_ONE_EPOCH, marks=pytest.mark.full),
        pytest.param(replace(THREE, lost_answers=True, min_isr=2), marks=pytest.mark.full),
        pytest.param(SHORT_LOGS, marks=pytest.mark.full),
        pytest.param(
            replace(SHORT_LOGS, leader_epochs=2, lost_answers=True, min_isr=2),
            marks=pytest.mark.full,
        ),
        pytest.param(
            replace(SHORT_LOGS, leader_epochs=2, partition_epochs=4, min_isr=2),
            marks=pytest.mark.full,
        ),
        pytest.param(
            Bounds(records=1, factor=2, targets=((2, 3),), lost_answers=False),
            marks=pytest.mark.full,
        ),
    ],
    ids=[
        "three-replicas",
        "min-isr",
        "short-logs-and-min-isr",
        "lost-answers",
        "lost-logs",
        "moves",
        "three-in-one-epoch",
        "three-with-lost-answers",
        "short-logs",
        "short-logs-with-lost-answers",
        "short-logs-and-changed-isrs",
        "moves-to-a-third",
    ],
)
def test_every_order_of_steps(bounds: Bounds) -> None:
    report = explore(bounds)
    assert report.failure == "", "\n".join(report.story)
    assert report.states > 5_000


@pytest.mark.parametrize(
    ("bug", "bounds"),
    [
        (CountsCommittedIsr, Bounds(records=1, partition_epochs=4, size=2)),
        (AdmitsAnybody, Bounds(records=1, partition_epochs=4, size=2)),
        (CountsCommittedIsr, THREE_IN_ONE_EPOCH),
        (CommitsBelowMinIsr, Bounds(records=1, partition_epochs=4, size=2, min_isr=2)),
        (TruncatesToHighWatermark, SMALL),
        (TruncatesToHighWatermark, THREE),
        (TruncatesToHighWatermark, SHORT_LOGS),
    ],
)
def test_it_finds_a_bug_with_a_short_story(bug: type[Replica], bounds: Bounds) -> None:
    report = explore(bounds, bug)
    assert report.failure
    assert 2 <= len(report.story) <= 8, "\n".join(report.story)


def test_a_late_fetch_of_a_lost_log_would_vouch_for_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why the leader epoch grows though the leader stays (`change_leader`)."""

    def in_the_same_epoch(
        partition: PartitionState, nodes: frozenset[NodeId], candidates: Candidates, **rules: Any
    ) -> PartitionState | None:
        without = replace(candidates, alive=candidates.alive - nodes, lost_tail=nodes)
        return elect(partition, without, **rules)

    monkeypatch.setattr(model, "without_failed_replicas", in_the_same_epoch)
    report = explore(Bounds(records=1, partition_epochs=4, size=2, lost_logs=True))
    assert report.failure
    assert any(step.startswith("arrive") for step in report.story), "\n".join(report.story)


def test_a_late_fetch_of_a_removed_replica_would_vouch_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why it grows when a replica goes, too (`reassign`)."""
    in_new_leader_epoch = reassign._in_new_leader_epoch

    def in_the_same_epoch(slim: PartitionState, leader: NodeId) -> PartitionState:
        after = in_new_leader_epoch(slim, leader)
        return replace(after, leader_epoch=slim.leader_epoch) if leader == slim.leader else after

    monkeypatch.setattr(reassign, "_in_new_leader_epoch", in_the_same_epoch)
    report = explore(MOVING)
    assert report.failure
    assert any(step.startswith("arrive") for step in report.story), "\n".join(report.story)
