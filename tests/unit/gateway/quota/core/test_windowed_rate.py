import pytest

from highwater.gateway.quota.core.windowed_rate import THROTTLE_MS_MAX, QuotaWindows, WindowedRate


def rate(**windows):
    return WindowedRate(QuotaWindows(**windows))


def test_all_windows_but_one_may_come_at_once():
    r = rate()
    r.record(5000, 1000)
    assert r.delay_ms(5000, limit=100) == 0
    r.record(5000, 50)
    assert r.delay_ms(5000, limit=100) == 500, "(105 - 100) / 100 of 10 s"


def test_what_is_above_takes_its_time():
    r = rate()
    for at_ms in range(0, 10_000, 1000):
        r.record(at_ms, 100)
    assert r.delay_ms(10_500, limit=100) == 0
    r.record(10_500, 300)
    # 1300 in 10.5 s: at 13 s it would be 100 a second.
    assert r.delay_ms(10_500, limit=100) == 2500


def test_a_window_that_has_passed_counts_no_more():
    r = rate()
    r.record(999, 5000)
    assert r.delay_ms(10_999, limit=100) > 0
    assert r.delay_ms(11_000, limit=100) == 0


def test_more_is_told_and_not_recorded():
    r = rate(count=2)
    r.record(0, 1)
    assert r.delay_ms(0, limit=1, more=1) == 1000
    assert r.delay_ms(0, limit=1) == 0


def test_a_delay_is_never_rounded_down_to_none_and_has_an_end():
    r = rate()
    r.record(0, 10.0001)
    assert r.delay_ms(0, limit=1) == 1
    r.record(0, 1e12)
    assert r.delay_ms(0, limit=1) == THROTTLE_MS_MAX


@pytest.mark.parametrize(("count", "size_ms"), [(2, 1000), (5, 3000)])
def test_windows_are_settings(count, size_ms):
    r = rate(count=count, size_ms=size_ms)
    least_s = (count - 1) * size_ms / 1000
    r.record(0, 10 * least_s)
    assert r.delay_ms(0, limit=10) == 0
    r.record(0, 10)
    assert r.delay_ms(0, limit=10) == 1000
    assert r.delay_ms(count * size_ms, limit=10) == 0
    assert QuotaWindows(count=count, size_ms=size_ms).span_ms == count * size_ms


def test_what_is_owed_is_not_forgotten_with_the_windows():
    r = rate()
    r.record(0, 30_000)
    assert r.held_ms(0, limit=1000) == 20_000
    assert r.delay_ms(15_000, limit=1000) == 0
    assert r.held_ms(15_000, limit=1000) == 5_000
    assert r.owes(29_999)
    assert not r.owes(30_000)
    r.record(30_000, 10_000)
    assert r.held_ms(30_000, limit=1000) == 0  # Ten seconds' worth at once, after a rest.


def test_what_is_owed_is_paid_with_the_limit_of_the_time():
    r = rate()
    r.record(0, 30_000)
    r.held_ms(0, limit=1000)
    assert r.held_ms(12_000, limit=2000) == 0
    r.record(12_000, 10_000)
    assert r.held_ms(12_000, limit=500) == (30_000 - 12_000 + 10_000) / 500 * 1000 - 10_000
    r.record(12_000, 1e12)
    assert r.held_ms(12_000, limit=500) == THROTTLE_MS_MAX


def test_nothing_is_owed_by_who_is_never_held_for_it():
    r = rate()
    r.record(0, 1e9)
    assert r.delay_ms(0, limit=1) > 0
    assert not r.owes(0)
