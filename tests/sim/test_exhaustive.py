"""Every order of steps within bounds, and that the search would see a bug."""

import pytest

from tests.sim.bugs import AdmitsAnybody, CommitsBelowMinIsr, CountsCommittedIsr
from tests.sim.exhaustive import Bounds, explore

SMALL = Bounds(records=1, leader_epochs=3, partition_epochs=3, size=2)


def test_two_replicas() -> None:
    report = explore(SMALL)
    assert report.failure == "", "\n".join(report.story)
    assert report.states > 500


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(records=1, partition_epochs=3, lost_answers=False),
        Bounds(records=1, partition_epochs=3, lost_answers=False, min_isr=2),
        Bounds(records=2, partition_epochs=4, size=2),
    ],
    ids=["three-replicas", "min-isr", "lost-answers"],
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
        (CommitsBelowMinIsr, Bounds(records=1, partition_epochs=4, size=2, min_isr=2)),
    ],
)
def test_it_finds_a_bug_with_a_short_story(bug, bounds: Bounds) -> None:
    report = explore(bounds, bug)
    assert report.failure
    assert 2 <= len(report.story) <= 8, "\n".join(report.story)
