import pytest

from highwater.model.ids import InstanceId
from highwater.partition.transactions.core.image import (
    DurableState,
    TransactionRecord,
    is_exhausted,
)
from tests.unit.partition.transactions.core.dialogue import image, key


def test_the_last_record_of_an_id_counts_and_none_deletes():
    state = DurableState()
    state.replay(TransactionRecord(key("a"), image(producer_epoch=1)))
    state.replay(TransactionRecord(key("a"), image(producer_epoch=2)))
    state.replay(TransactionRecord(key("b"), image()))
    state.replay(TransactionRecord(key("b"), None))
    state.replay(TransactionRecord(key("c"), None))
    assert list(state.records()) == [TransactionRecord(key("a"), image(producer_epoch=2))]


def test_an_id_is_unique_within_its_instance():
    state = DurableState()
    theirs = key("a", InstanceId("team"))
    state.replay(TransactionRecord(key("a"), image(producer_id=1)))
    state.replay(TransactionRecord(theirs, image(producer_id=2)))
    state.replay(TransactionRecord(key("a"), None))
    assert list(state.records()) == [TransactionRecord(theirs, image(producer_id=2))]


def test_a_copy_does_not_change():
    state = DurableState()
    state.replay(TransactionRecord(key("a"), image()))
    copy = state.capture()
    state.replay(TransactionRecord(key("a"), None))
    assert list(copy.records()) == [TransactionRecord(key("a"), image())]


@pytest.mark.parametrize(("epoch", "last"), [(-1, False), (32_765, False), (32_766, True)])
def test_the_largest_epoch_is_for_no_client(epoch, last):
    assert is_exhausted(epoch) is last
    assert image(producer_epoch=epoch).epoch_exhausted is last
