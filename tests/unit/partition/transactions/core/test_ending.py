"""EndTxn in every state, for clients before and after KIP-890; aborts that nobody asked for."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core.ending import after_end, end, fence
from highwater.partition.transactions.core.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from highwater.partition.transactions.core.values import EndRequest, ProducerIdAndEpoch
from tests.unit.partition.transactions.core.dialogue import (
    LAST_EPOCH,
    T0,
    WALL_MS,
    Dialogue,
    image,
)

FENCED = ErrorCode.PRODUCER_FENCED
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
OTHER = ErrorCode.INVALID_PRODUCER_ID_MAPPING
DONE = "done"


def ask(known, *, commit, epoch=5, producer_id=1000, version=2, new_id=2000):
    request = EndRequest(
        producer=ProducerIdAndEpoch(producer_id, epoch), commit=commit, version=version
    )
    decision = end(known, request, lambda: new_id, WALL_MS + 10)
    if decision.error:
        assert decision.image is None
        return decision.error
    return DONE if decision.image is None else decision.image.state


def in_state(state, **fields):
    at_rest = state in (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
    partitions = frozenset() if at_rest else frozenset({T0})
    return image(state=state, partitions=partitions, **fields)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (EMPTY, INVALID, INVALID),
        (ONGOING, PREPARE_ABORT, PREPARE_COMMIT),
        (PREPARE_COMMIT, INVALID, WAIT),
        (PREPARE_ABORT, WAIT, INVALID),
        (COMPLETE_COMMIT, INVALID, DONE),
        (COMPLETE_ABORT, DONE, INVALID),
    ],
)
def test_before_version_2(version, state, abort, commit):
    known = in_state(state)
    assert ask(known, commit=False, version=version) == abort
    assert ask(known, commit=True, version=version) == commit
    for epoch in (4, 6):
        assert ask(known, commit=True, version=version, epoch=epoch) == FENCED
    assert ask(known, commit=True, version=version, producer_id=999) == OTHER


@pytest.mark.parametrize(
    ("state", "abort_again", "abort", "commit_again", "commit"),
    [
        # The first three rows are the table of Kafka's TransactionCoordinator.
        (EMPTY, FENCED, PREPARE_ABORT, FENCED, INVALID),
        (COMPLETE_ABORT, DONE, PREPARE_ABORT, INVALID, INVALID),
        (COMPLETE_COMMIT, INVALID, PREPARE_ABORT, DONE, INVALID),
        (ONGOING, FENCED, PREPARE_ABORT, FENCED, PREPARE_COMMIT),
        (PREPARE_COMMIT, WAIT, WAIT, WAIT, WAIT),
        (PREPARE_ABORT, WAIT, WAIT, WAIT, WAIT),
    ],
)
def test_from_version_2_on(state, abort_again, abort, commit_again, commit):
    known = in_state(state)
    assert ask(known, commit=False, epoch=4) == abort_again
    assert ask(known, commit=False, epoch=5) == abort
    assert ask(known, commit=True, epoch=4) == commit_again
    assert ask(known, commit=True, epoch=5) == commit
    waits = WAIT if known.state in (PREPARE_ABORT, PREPARE_COMMIT) else None
    for epoch in (3, 6):
        assert ask(known, commit=False, epoch=epoch) == (waits or FENCED)
    assert ask(known, commit=False, producer_id=999) == (waits or OTHER)


def test_an_unknown_transactional_id_has_no_producer():
    for version in (0, 2):
        assert ask(None, commit=True, version=version) == OTHER


def test_the_answer_has_the_next_epoch_and_so_has_that_to_a_repeated_request():
    d = Dialogue()
    me = d.begin()
    d.add(me)
    answer = d.end(me)
    assert answer.producer == (me.producer_id, me.epoch + 1)
    assert d.end(me).error == WAIT
    d.complete()
    again = d.end(me)
    assert (again.error, again.producer) == (ErrorCode.NONE, answer.producer)
    assert d.end(me, commit=False).error == INVALID
    assert d.add(answer.producer) == ErrorCode.NONE


def test_after_the_last_epoch_the_answer_has_another_producer_id():
    d = Dialogue()
    me = ProducerIdAndEpoch(7, LAST_EPOCH)
    d.put(
        image(producer_id=7, producer_epoch=LAST_EPOCH, state=ONGOING, partitions=frozenset({T0}))
    )
    answer = d.end(me)
    assert answer.producer == (1000, 0)
    assert d.add(answer.producer) == WAIT
    d.complete()
    again = d.end(me)
    assert (again.error, again.producer) == (ErrorCode.NONE, answer.producer)
    assert d.end(me, commit=False).error == INVALID
    assert d.add(answer.producer) == ErrorCode.NONE
    assert d.end(me).error == OTHER


def test_without_a_producer_id_the_end_waits():
    known = in_state(ONGOING, producer_epoch=LAST_EPOCH)
    wanted = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ask(known, commit=True, epoch=LAST_EPOCH, new_id=None) == wanted
    assert fence(known, 2, lambda: None, WALL_MS).error == wanted


def test_no_client_gets_the_largest_epoch():
    fenced = in_state(COMPLETE_ABORT, producer_epoch=LAST_EPOCH + 1)
    assert ask(fenced, commit=False, epoch=LAST_EPOCH) == FENCED
    at_the_end = in_state(ONGOING, producer_epoch=LAST_EPOCH)
    following = fence(at_the_end, 2, lambda: 2000, WALL_MS).image
    assert following.next_producer_id == 2000
    assert after_end(following) == (2000, 0)


def test_the_answer_below_version_2_names_no_producer():
    d = Dialogue()
    me = d.begin()
    d.add(me, version=0)
    answer = d.end(me, version=0)
    assert (answer.error, answer.producer) == (ErrorCode.NONE, (-1, -1))
    assert after_end(d.image()) == (-1, -1)
    d.complete()
    assert d.add(me, version=0) == ErrorCode.NONE
