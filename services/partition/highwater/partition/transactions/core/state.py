"""The states of a transaction and every legal transition between them."""

import enum
from collections.abc import Mapping
from typing import Final


class TransactionState(enum.Enum):
    """The state of a transactional id; the value is the name that Kafka's tools show.

    EMPTY -> ONGOING: a partition, or a group's offsets, joined the transaction.
    ONGOING -> PREPARE_COMMIT, PREPARE_ABORT: EndTxn.
    ONGOING -> PREPARE_EPOCH_FENCE -> PREPARE_ABORT: the transaction timed out, or another producer
        initialized the id. The state between is never written.
    EMPTY, COMPLETE_* -> PREPARE_ABORT: EndTxn 5 aborts a transaction of which the coordinator knows
        nothing (KIP-890).
    PREPARE_COMMIT -> COMPLETE_COMMIT, PREPARE_ABORT -> COMPLETE_ABORT: all markers are written.
    COMPLETE_* -> ONGOING: the next transaction.
    EMPTY, COMPLETE_* -> EMPTY: InitProducerId.
    EMPTY, COMPLETE_* -> DEAD: the transactional id has expired, or its instance was purged; DEAD is never
        written.
    """

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    # Members are themselves: the hash of Enum, written in Python, costs a transaction several microseconds.
    __hash__ = object.__hash__


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD
PREPARE_EPOCH_FENCE: Final = TransactionState.PREPARE_EPOCH_FENCE

PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The transaction is decided and its markers are being written."""

AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open; the transactional id may expire."""

STATE_IDS: Final[Mapping[TransactionState, int]] = {
    state: number for number, state in enumerate(TransactionState)
}
"""TransactionStatus in `__transaction_state` (Kafka: `TransactionState.id`)."""

STATES: Final[Mapping[int, TransactionState]] = {
    number: state for state, number in STATE_IDS.items()
}

VALID_PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: AT_REST | {ONGOING, PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    DEAD: AT_REST,
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}
"""The states that each one may follow (Kafka: `TransactionState.validPreviousStates`)."""


class IllegalTransactionTransitionError(AssertionError):
    """A transition that the table does not list: a bug in the coordinator."""


def check_transition(source: TransactionState, target: TransactionState) -> None:
    """Raise IllegalTransactionTransitionError unless `source` may be followed by `target`."""
    if source not in VALID_PREVIOUS[target]:
        raise IllegalTransactionTransitionError(f"{source.value} -> {target.value}")
