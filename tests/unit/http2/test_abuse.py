import pytest

from highwater.http2.abuse import AbuseLimits, FrameRates, RateLimit
from highwater.http2.errors import ConnectionViolationError, ErrorCode


def test_a_burst_is_taken_and_only_time_gives_more():
    limit = RateLimit(3, 2.0)
    assert [limit.spend(10.0) for _ in range(4)] == [True, True, True, False]
    assert [limit.spend(10.5) for _ in range(2)] == [True, False]
    assert [limit.spend(100.0) for _ in range(4)] == [True, True, True, False]


def test_floods_end_the_connection_with_enhance_your_calm():
    rates = FrameRates(AbuseLimits(control_burst=2, reset_burst=1))
    rates.control()
    rates.control()
    with pytest.raises(ConnectionViolationError) as caught:
        rates.control()
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM
    rates.reset()
    with pytest.raises(ConnectionViolationError, match="reset") as caught:
        rates.reset()
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_the_two_rates_are_apart():
    rates = FrameRates(AbuseLimits(control_burst=1, reset_burst=1, reset_per_s=1.0))
    rates.control()
    rates.reset()
    rates.now_s = 1.0
    rates.reset()
