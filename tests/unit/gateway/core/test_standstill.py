from types import SimpleNamespace

import pytest

from highwater.gateway.core.standstill import BACKLOG_MS, STANDSTILL_MS, Standstill


@pytest.fixture
def clock():
    return SimpleNamespace(ms=50_000)


@pytest.fixture
def standstill(clock):
    return Standstill(lambda: clock.ms)


def test_a_process_that_runs_makes_nothing_old(clock, standstill):
    for _ in range(100):
        clock.ms += STANDSTILL_MS - 1
        standstill.look()
        assert not standstill.makes_old(0)


def test_what_was_accepted_before_or_just_after_a_standstill_is_old_for_ever(clock, standstill):
    clock.ms += STANDSTILL_MS
    standstill.look()
    over_ms = clock.ms
    for later_ms in (0, 10, 1_000, 10_000):
        for _ in range(later_ms // 1_000):
            clock.ms += 1_000
            standstill.look()
        assert standstill.makes_old(over_ms - STANDSTILL_MS)
        assert standstill.makes_old(over_ms + BACKLOG_MS - 1)
        assert not standstill.makes_old(over_ms + BACKLOG_MS)


def test_who_asks_before_the_next_look_learns_of_it(clock, standstill):
    clock.ms += 60_000
    assert standstill.makes_old(clock.ms)
    standstill.look()
    assert standstill.makes_old(clock.ms), "the look that follows it is no end of it"


def test_the_last_one_counts(clock, standstill):
    for _ in range(2):
        clock.ms += STANDSTILL_MS
        standstill.look()
    assert standstill.makes_old(clock.ms - STANDSTILL_MS + BACKLOG_MS)
