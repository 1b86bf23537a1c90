"""From image to image, one after another."""

import pytest

from highwater.partition.transactions.core import transitions
from highwater.partition.transactions.core.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    VALID_PREVIOUS,
    IllegalTransactionTransitionError,
    TransactionState,
)
from tests.unit.partition.transactions.core.dialogue import LAST_EPOCH, T0, T1, WALL_MS, image

LATER_MS = WALL_MS + 10


def every(known, wanted):
    """Each transition that leads to `wanted`, from `known`."""
    if wanted is EMPTY:
        yield transitions.bumped(known, epoch=6, last_epoch=-1, timeout_ms=1, wall_ms=LATER_MS)
    elif wanted is ONGOING:
        yield transitions.added(known, frozenset({T1}), 2, LATER_MS)
    elif wanted in PREPARED:
        commit = wanted is PREPARE_COMMIT
        yield transitions.prepared(known, commit=commit, version=2, next_id=-1, wall_ms=LATER_MS)
    else:
        yield transitions.completed(known, LATER_MS)


@pytest.mark.parametrize("source", [*TransactionState])
@pytest.mark.parametrize("target", [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
def test_transitions_keep_to_the_table(source, target):
    known = image(state=source)
    if source in VALID_PREVIOUS[target]:
        assert [each.state for each in every(known, target)] == [target]
    else:
        with pytest.raises(IllegalTransactionTransitionError):
            list(every(known, target))


def test_a_new_id_has_no_epoch_yet():
    new = transitions.created(1000, 60_000, WALL_MS)
    assert (new.producer_id, new.producer_epoch, new.state) == (1000, -1, EMPTY)
    first = transitions.bumped(new, epoch=0, last_epoch=-1, timeout_ms=60_000, wall_ms=WALL_MS)
    assert (first.producer_epoch, first.previous_producer_id) == (0, 1000)


def test_the_first_partition_begins_the_transaction_and_the_next_ones_do_not():
    begun = transitions.added(image(state=COMPLETE_COMMIT, start_ms=1), frozenset({T0}), 0, 100)
    assert (begun.state, begun.start_ms, begun.update_ms) == (ONGOING, 100, 100)
    more = transitions.added(begun, frozenset({T1}), 0, 200)
    assert (more.start_ms, more.update_ms, more.partitions) == (100, 200, {T0, T1})


def test_below_version_2_the_epoch_stays():
    open_ = image(state=ONGOING, partitions=frozenset({T0}), last_producer_epoch=4)
    ended = transitions.prepared(open_, commit=True, version=0, next_id=-1, wall_ms=LATER_MS)
    assert (ended.producer_epoch, ended.last_producer_epoch) == (5, 4)
    assert ended.partitions == {T0}
    done = transitions.completed(ended, LATER_MS)
    assert (done.state, done.producer_epoch, done.partitions) == (COMPLETE_COMMIT, 5, frozenset())


def test_from_version_2_the_end_bumps_the_epoch():
    open_ = image(state=ONGOING, partitions=frozenset({T0}))
    ended = transitions.prepared(open_, commit=False, version=2, next_id=-1, wall_ms=LATER_MS)
    assert (ended.producer_epoch, ended.last_producer_epoch, ended.client_version) == (6, 5, 2)
    assert ended.start_ms == open_.start_ms
    assert transitions.completed(ended, LATER_MS).state is COMPLETE_ABORT


def test_an_abort_of_nothing_begins_when_it_ends():
    ended = transitions.prepared(
        image(state=EMPTY, start_ms=-1), commit=False, version=2, next_id=-1, wall_ms=LATER_MS
    )
    assert (ended.start_ms, ended.partitions) == (LATER_MS, frozenset())


def test_after_the_last_epoch_comes_another_producer_id():
    open_ = image(state=ONGOING, partitions=frozenset({T0}), producer_epoch=LAST_EPOCH)
    ended = transitions.prepared(open_, commit=True, version=2, next_id=2000, wall_ms=LATER_MS)
    # The marker has the old id, and an epoch above that of the records.
    assert (ended.producer_id, ended.producer_epoch) == (1000, LAST_EPOCH + 1)
    done = transitions.completed(ended, LATER_MS)
    assert (done.producer_id, done.producer_epoch, done.next_producer_id) == (2000, 0, -1)
    assert (done.previous_producer_id, done.last_producer_epoch) == (1000, LAST_EPOCH)


@pytest.mark.parametrize(("version", "last_epoch"), [(0, -1), (1, -1), (2, 5)])
def test_a_fence_bumps_the_epoch_once(version, last_epoch):
    open_ = image(state=ONGOING, partitions=frozenset({T0}), last_producer_epoch=4)
    ended = transitions.fenced(open_, version, -1, LATER_MS)
    assert ended.state is PREPARE_ABORT
    assert (ended.producer_epoch, ended.last_producer_epoch) == (6, last_epoch)


def test_a_fence_at_the_largest_epoch_still_aborts():
    open_ = image(state=ONGOING, partitions=frozenset({T0}), producer_epoch=32_767)
    assert transitions.fenced(open_, 1, -1, LATER_MS).producer_epoch == 32_767


def test_rotation_keeps_the_last_epoch_for_a_producer_that_asks_again():
    full = image(producer_epoch=LAST_EPOCH)
    turned = transitions.rotated(full, 2000, last_epoch=LAST_EPOCH, timeout_ms=1, wall_ms=LATER_MS)
    assert (turned.producer_id, turned.producer_epoch, turned.start_ms) == (2000, 0, -1)
    assert (turned.previous_producer_id, turned.last_producer_epoch) == (1000, LAST_EPOCH)
