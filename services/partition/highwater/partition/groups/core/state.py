"""The states of a classic group and every legal transition between them."""

import enum
from collections.abc import Mapping
from typing import Final


class GroupState(enum.Enum):
    """The state of a classic group; the value is the name that Kafka's tools show.

    EMPTY -> PREPARING_REBALANCE: the first member joins.
    PREPARING_REBALANCE -> COMPLETING_REBALANCE: all members joined, or the rebalance timed out.
    PREPARING_REBALANCE -> EMPTY: the last member left or timed out.
    COMPLETING_REBALANCE -> STABLE: the leader sent the assignment.
    COMPLETING_REBALANCE -> PREPARING_REBALANCE: a member joined anew, left or timed out.
    STABLE -> PREPARING_REBALANCE: a member joined, changed, left or timed out.
    any -> DEAD: the group was deleted, or its partition moved to another node.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset(),
}


class IllegalGroupTransitionError(AssertionError):
    """A transition that the table does not list: a bug in the coordinator."""


def check_transition(source: GroupState, target: GroupState) -> None:
    """Raise IllegalGroupTransitionError unless `source` may be followed by `target`."""
    if target not in TRANSITIONS[source]:
        raise IllegalGroupTransitionError(f"{source.value} -> {target.value}")
