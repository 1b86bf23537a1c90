"""Which producers may begin a transaction, as answers and markers come in every order."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import verifications as module
from highwater.partition.core.verifications import Verifications, produce_error

REFUSED = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
def known():
    return Verifications()


def test_what_was_granted_may_begin_once(known):
    assert known.refuse(7, 0, 0) == REFUSED
    asked = known.asked(7, 0, 5)
    assert known.refuse(7, 0, 5) == REFUSED, "it was only asked"
    assert known.grant(7, asked)
    assert known.granted(7, 0)
    assert known.refuse(7, 0, 5) == 0
    known.begun(7)
    assert known.refuse(7, 0, 6) == REFUSED


def test_it_is_for_one_epoch(known):
    assert known.grant(7, known.asked(7, 3, 0))
    assert known.refuse(7, 4, 0) == REFUSED
    assert known.refuse(7, 2, 0) == REFUSED


def test_an_answer_after_a_marker_is_too_late(known):
    asked = known.asked(7, 3, 0)
    known.ended(7, 3, strict=False)
    assert not known.grant(7, asked)
    again = known.asked(7, 3, 0)
    assert not known.grant(7, asked), "the answer to the question before"
    assert known.grant(7, again)


@pytest.mark.parametrize(
    ("epoch", "strict", "goes"),
    [(2, False, False), (3, False, True), (4, False, True), (3, True, False), (4, True, True)],
)
def test_which_markers_end_a_verification(known, epoch, strict, goes):
    assert known.grant(7, known.asked(7, 3, 0))
    known.ended(7, epoch, strict=strict)
    assert known.granted(7, 3) is not goes


def test_markers_of_others(known):
    assert known.grant(7, known.asked(7, 3, 0))
    known.ended(8, 9, strict=False)
    assert known.granted(7, 3)


def test_a_fenced_producer_takes_nothing_from_its_successor(known):
    successor = known.asked(7, 4, 0)
    zombie = known.asked(7, 3, 9)
    assert not known.grant(7, zombie)
    assert known.grant(7, successor)
    newest = known.asked(7, 5, 0)
    assert not known.granted(7, 4)
    assert known.grant(7, newest)


def test_a_later_batch_does_not_begin_the_transaction(known):
    """Its predecessor was refused in a way that lets the client send it again."""
    known.asked(7, 3, 5)
    assert known.grant(7, known.asked(7, 3, 8))
    assert known.refuse(7, 3, 8) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.refuse(7, 3, 5) == 0
    assert known.grant(7, known.asked(7, 3, 4))
    assert known.refuse(7, 3, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_where_each_transaction_has_its_epoch_a_new_producer_begins_at_sequence_0(known):
    """Its former batches in the epoch were in a log that is lost; Kafka: `checkSequence`."""
    asked = known.asked(7, 3, 5, own_epoch=True)
    assert known.grant(7, asked)
    assert known.refuse(7, 3, 5, unknown=True) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert known.refuse(7, 3, 5) == 0, "the log knows it, and judges the sequence"
    assert known.refuse(7, 3, 0, unknown=True) == 0
    assert known.refuse(7, 3, -1, unknown=True) == 0, "a group's offsets have none"
    assert known.grant(8, known.asked(8, 3, 5))
    assert known.refuse(8, 3, 5, unknown=True) == 0


def test_there_is_a_limit(known, monkeypatch):
    monkeypatch.setattr(module, "PRODUCERS_MAX", 2)
    first = known.asked(1, 0, 0)
    second = known.asked(2, 0, 0)
    known.asked(1, 0, 0)
    known.asked(3, 0, 0)
    assert len(known) == 2
    assert not known.grant(2, second)
    assert second.late_code == ErrorCode.NOT_ENOUGH_REPLICAS, "it may ask again"
    assert known.grant(1, first)
    known.ended(1, 0, strict=False)
    assert not known.grant(1, first)
    assert first.late_code == ErrorCode.INVALID_TXN_STATE
    known.clear()
    assert not known.granted(1, 0)


@pytest.mark.parametrize(
    ("code", "adds", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, False, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_codes_as_producers_know_them(code, adds, told):
    assert produce_error(code, adds_partition=adds) == told
