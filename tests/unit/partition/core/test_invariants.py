"""Each invariant is seen to fail."""

from collections.abc import Callable
from typing import Any

import pytest

from highwater.partition.core.invariants import InvariantViolationError, check, check_epochs
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role
from tests.unit.partition.core.conversation import Conversation


def _set(name: str, value: Any) -> Callable[[Replica], None]:
    return lambda replica: setattr(replica, name, value)


def _ahead(replica: Replica) -> None:
    replica.followers[2].log_end_offset = 99


def _unmarked(replica: Replica) -> None:
    replica.followers[2].in_maximal_isr = False


def _narrow(replica: Replica) -> None:
    replica.isr.maximal = frozenset({1})


def _outside(replica: Replica) -> None:
    replica.isr.committed = (2, 3)


@pytest.mark.parametrize(
    ("ruin", "name"),
    [
        (_set("high_watermark", 6), "R5"),
        (_set("log_start_offset", 4), "R5"),
        (_set("leader", 2), "R6"),
        (_set("role", Role.FOLLOWER), "R6"),
        (_set("truncating", True), "R7"),
        (_ahead, "R5"),
        (_unmarked, "R12"),
        (_narrow, "R12"),
        (_outside, "R12"),
    ],
)
def test_a_leader(ruin: Callable[[Replica], None], name: str) -> None:
    told = Conversation((0, 0), end=5, high_watermark=3)
    told.record(1, 1, 1)
    check(told.replica)
    ruin(told.replica)
    with pytest.raises(InvariantViolationError, match=f"^{name}:"):
        check(told.replica)


def test_a_follower_of_itself() -> None:
    told = Conversation()
    told.record(2, 1, 1)
    told.replica.leader = 1
    with pytest.raises(InvariantViolationError, match=r"^R6: follows itself"):
        check(told.replica)


def test_epochs_within_the_log() -> None:
    told = Conversation((0, 0), (2, 5), end=5)
    check_epochs(told.replica)
    told.replica.log_end_offset = 4
    with pytest.raises(InvariantViolationError, match=r"^R7: epoch 2 at 5"):
        check_epochs(told.replica)
