"""AddPartitionsToTxn, and the question of leaders, in every state."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core import adding
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.core.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from tests.unit.partition.transactions.core.dialogue import T0, T1, WALL_MS, image

ME = ProducerIdAndEpoch(1000, 5)
OPEN = image(state=ONGOING, partitions=frozenset({T0}))


def add(known, producer=ME, partitions=frozenset({T0}), bytes_max=1000):
    return adding.add(
        known, producer, partitions, version=2, bytes_max=bytes_max, wall_ms=WALL_MS + 10
    )


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_the_first_partition_begins_a_transaction(state):
    following = add(image(state=state)).image
    assert (following.state, following.partitions) == (ONGOING, {T0})
    assert following.client_version == 2


def test_partitions_that_are_there_already_write_nothing():
    decision = add(OPEN)
    assert (decision.error, decision.image) == (ErrorCode.NONE, None)
    assert add(OPEN, partitions=frozenset({T1})).image.partitions == {T0, T1}


@pytest.mark.parametrize(
    ("known", "producer", "error"),
    [
        (None, ME, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerIdAndEpoch(999, 5), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerIdAndEpoch(1000, 4), ErrorCode.PRODUCER_FENCED),
        (OPEN, ProducerIdAndEpoch(1000, 6), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_other_producers_are_refused(known, producer, error):
    assert add(known, producer).error == error
    assert adding.verify(known, producer, [T0]) == {T0: error}


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize("producer", [ME, ProducerIdAndEpoch(2000, 0)])
def test_while_markers_are_written_the_client_waits(state, producer):
    # Also one that has the id and epoch of the next transaction already.
    known = image(state=state, partitions=frozenset({T0}))
    assert add(known, producer).error == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_leader_learns_which_partitions_are_in_the_transaction():
    assert adding.verify(OPEN, ME, [T0, T1]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    ending = image(state=PREPARE_ABORT, partitions=frozenset({T0}))
    assert adding.verify(ending, ME, [T0]) == {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    over = image(state=COMPLETE_COMMIT)
    assert adding.verify(over, ME, [T0]) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


def test_a_transaction_has_no_more_partitions_than_fit_into_a_record():
    many = frozenset(TopicPartition("t", number) for number in range(300))
    assert add(OPEN, partitions=many).error == ErrorCode.INVALID_REQUEST
    assert add(OPEN, partitions=many, bytes_max=2000).error == ErrorCode.NONE
