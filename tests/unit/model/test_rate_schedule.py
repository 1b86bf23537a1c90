import math

import pytest

from highwater.model.rate_schedule import RateSchedule

LEASE = RateSchedule(rate=1000, floor=200, expires_ms=3000, decay_ms=4000)


@pytest.mark.parametrize(
    ("at_ms", "rate"),
    [(0, 1000), (2999, 1000), (3000, 1000), (5000, 600), (7000, 200), (99_999, 200)],
)
def test_rate_is_held_then_goes_down_in_a_line(at_ms, rate):
    assert LEASE.rate_at(at_ms) == pytest.approx(rate)


def test_bytes_of_each_piece():
    assert LEASE.bytes_between(0, 3000) == pytest.approx(3000)
    assert LEASE.bytes_between(3000, 7000) == pytest.approx(2400)
    assert LEASE.bytes_between(7000, 8000) == pytest.approx(200)
    assert LEASE.bytes_between(0, 8000) == pytest.approx(5600)
    assert LEASE.bytes_between(5, 5) == 0


def test_without_decay_the_floor_follows_at_once():
    sudden = RateSchedule(rate=1000, floor=100, expires_ms=1000)
    assert sudden.rate_at(999) == 1000
    assert sudden.rate_at(1000) == 100
    assert sudden.bytes_between(0, 2000) == pytest.approx(1100)


def test_time_is_infinite_at_rate_zero():
    assert RateSchedule.constant(0).ms_until(0, 1) == math.inf
    assert RateSchedule.constant(0).ms_until(0, 0) == 0
    dying = RateSchedule(rate=1000, floor=0, expires_ms=0, decay_ms=1000)
    assert dying.ms_until(0, 501) == math.inf
    assert dying.ms_until(0, 499) < 1000
