import itertools

import pytest

from highwater.partition.transactions.core.state import (
    STATE_IDS,
    STATES,
    VALID_PREVIOUS,
    IllegalTransactionTransitionError,
    TransactionState,
    check_transition,
)

# Apache Kafka 4.3, TransactionState: id, name, valid previous states.
KAFKA = """
0 Empty             : Empty CompleteCommit CompleteAbort
1 Ongoing           : Ongoing Empty CompleteCommit CompleteAbort
2 PrepareCommit     : Ongoing
3 PrepareAbort      : Ongoing PrepareEpochFence Empty CompleteCommit CompleteAbort
4 CompleteCommit    : PrepareCommit
5 CompleteAbort     : PrepareAbort
6 Dead              : Empty CompleteAbort CompleteCommit
7 PrepareEpochFence : Ongoing
"""


def test_the_table_is_kafkas():
    told = {}
    for line in KAFKA.strip().splitlines():
        head, previous = line.split(":")
        number, name = head.split()
        state = TransactionState(name)
        assert STATE_IDS[state] == int(number)
        assert STATES[int(number)] is state
        told[state] = frozenset(TransactionState(each) for each in previous.split())
    assert told == VALID_PREVIOUS


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TransactionState, repeat=2)))
def test_only_listed_transitions_are_legal(source, target):
    if source in VALID_PREVIOUS[target]:
        check_transition(source, target)
    else:
        with pytest.raises(IllegalTransactionTransitionError):
            check_transition(source, target)
