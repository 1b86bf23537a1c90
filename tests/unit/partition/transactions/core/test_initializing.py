"""InitProducerId in every state."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core.initializing import initialize
from highwater.partition.transactions.core.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from highwater.partition.transactions.core.values import ProducerIdAndEpoch
from tests.unit.partition.transactions.core.dialogue import (
    LAST_EPOCH,
    T0,
    WALL_MS,
    Dialogue,
    image,
)

AT_REST = [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT]


def init(known, expected=None, new_id=2000, version=2):
    return initialize(
        known,
        timeout_ms=30_000,
        expected=None if expected is None else ProducerIdAndEpoch(*expected),
        new_id=lambda: new_id,
        version=version,
        wall_ms=WALL_MS + 10,
    )


def test_an_unknown_id_gets_a_producer_id_and_epoch_0():
    assert init(None).producer == (2000, 0)
    # Also for a producer whose transactional id has expired.
    assert init(None, expected=(7, 3)).producer == (2000, 0)


def test_without_a_producer_id_the_client_asks_again():
    assert init(None, new_id=None).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    full = image(producer_epoch=LAST_EPOCH)
    assert init(full, new_id=None).error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("state", AT_REST)
def test_at_rest_the_epoch_grows_and_the_former_producer_is_fenced(state):
    decision = init(image(state=state, last_producer_epoch=4))
    assert decision.producer == (1000, 6)
    assert decision.image.state is EMPTY
    assert (decision.image.timeout_ms, decision.image.last_producer_epoch) == (30_000, -1)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_while_markers_are_written_the_client_waits(state):
    decision = init(image(state=state, partitions=frozenset({T0})), expected=(1000, 4))
    assert decision.error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert decision.image is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_open_transaction_is_aborted_and_the_client_asks_again(version):
    decision = init(image(state=ONGOING, partitions=frozenset({T0})), version=version)
    assert decision.error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert decision.producer == (-1, -1)
    assert (decision.image.state, decision.image.producer_epoch) == (PREPARE_ABORT, 6)


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        ((1000, 5), (1000, 6)),  # goes on
        ((1000, 4), (1000, 5)),  # missed the answer
        ((1000, 3), ErrorCode.PRODUCER_FENCED),
        ((1000, 6), ErrorCode.PRODUCER_FENCED),
        ((999, 5), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_producer_that_goes_on_names_its_epoch(expected, outcome):
    decision = init(image(last_producer_epoch=4), expected=expected)
    assert (decision.producer if decision.image else decision.error) == outcome


def test_a_fenced_producer_cannot_abort_the_next_ones_transaction():
    decision = init(image(state=ONGOING, partitions=frozenset({T0})), expected=(999, 5))
    assert decision.error == ErrorCode.PRODUCER_FENCED
    assert decision.image is None


def test_after_the_last_epoch_comes_another_producer_id():
    full = image(producer_epoch=LAST_EPOCH)
    assert init(full).producer == (2000, 0)
    decision = init(full, expected=(1000, LAST_EPOCH))
    assert decision.producer == (2000, 0)
    # It missed the answer and asks again.
    again = init(decision.image, expected=(1000, LAST_EPOCH))
    assert again.producer == (2000, 0)
    assert init(decision.image, expected=(1000, LAST_EPOCH - 1)).error == ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_does_not_get_the_largest_epoch():
    fenced = image(state=COMPLETE_ABORT, producer_epoch=LAST_EPOCH + 1)
    decision = init(fenced, expected=(1000, LAST_EPOCH))
    assert decision.error == ErrorCode.PRODUCER_FENCED
    assert init(fenced).producer == (2000, 0)


def test_two_producers_of_one_id_fence_one_another():
    d = Dialogue()
    first = d.begin()
    assert d.add(first) == ErrorCode.NONE
    assert d.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert d.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    d.complete()
    second = d.begin()
    assert second == (first.producer_id, 2)
    assert d.add(first) == ErrorCode.PRODUCER_FENCED
    assert d.end(first).error == ErrorCode.PRODUCER_FENCED
    assert d.add(second) == ErrorCode.NONE
