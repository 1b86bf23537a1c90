import itertools

import pytest

from highwater.partition.groups.core.state import (
    TRANSITIONS,
    GroupState,
    IllegalGroupTransitionError,
    check_transition,
)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(GroupState, repeat=2)))
def test_only_listed_transitions_are_legal(source, target):
    if target in TRANSITIONS[source]:
        check_transition(source, target)
    else:
        with pytest.raises(IllegalGroupTransitionError):
            check_transition(source, target)


def test_a_dead_group_stays_dead_and_every_other_can_die():
    assert TRANSITIONS[GroupState.DEAD] == frozenset()
    assert all(GroupState.DEAD in TRANSITIONS[s] for s in GroupState if s is not GroupState.DEAD)
