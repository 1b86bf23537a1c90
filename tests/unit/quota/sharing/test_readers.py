"""Who serves reads of an instance without leading any of its partitions."""

import pytest

from highwater.model.ids import InstanceId
from highwater.quota.sharing.readers import FLOOR_TICKS, REST_TICKS, Readers
from tests.unit.quota.images import usage

TICK_MS = 1000
ONE = InstanceId("default")
LEADERS = {1: 4, 2: 1}


@pytest.fixture
def readers():
    return Readers(TICK_MS)


def test_a_reader_counts_as_an_average_leader(readers):
    assert readers.beside(ONE, LEADERS) is LEADERS
    assert readers.report(usage(3, consumed=5), [ONE], 0)
    assert not readers.report(usage(3, consumed=5), [ONE], 1)
    assert readers.beside(ONE, LEADERS) == {1: 4, 2: 1, 3: 2}
    assert readers.beside(ONE, {}) == {}
    assert readers.beside(InstanceId("other"), LEADERS) is LEADERS


def test_only_those_count_that_read_and_do_not_lead(readers):
    assert not readers.report(usage(3), [ONE], 0)
    assert not readers.report(usage(1, consumed=5, leader_partitions=4), [ONE], 0)
    assert not readers.report(usage(3, consumed=5), [], 0)
    assert readers.report(usage(3, held_consume=1), [ONE], 0)
    # It was elected meanwhile, and counts as the leader that it is.
    assert readers.beside(ONE, {3: 9}) == {3: 9}


def test_a_reader_has_a_static_share_only_when_the_others_know(readers):
    readers.report(usage(3, consumed=5), [ONE], 0)
    readers.report(usage(3, consumed=5), [ONE], TICK_MS)
    last_ms = FLOOR_TICKS * TICK_MS - 1
    assert [readers.has_floor(ONE, 3, at) for at in (0, last_ms, last_ms + 1)] == [
        False,
        False,
        True,
    ]
    assert readers.has_floor(ONE, 1, 0)


def test_who_rests_for_long_is_forgotten(readers):
    readers.report(usage(3, consumed=5), [ONE], 0)
    readers.report(usage(4, consumed=5), [ONE], 500)
    assert not readers.forget_resting(REST_TICKS * TICK_MS - 1)
    assert readers.forget_resting(REST_TICKS * TICK_MS)
    assert set(readers.beside(ONE, LEADERS)) == {1, 2, 4}
    assert readers.forget_resting(REST_TICKS * TICK_MS + 500)
    assert readers.beside(ONE, LEADERS) is LEADERS
