from highwater.gateway.quota.core.connection_rates import ConnectionRates
from highwater.gateway.quota.core.precedence import AddressLimits
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.quota.quota_world import Now


def test_connections_above_the_rate_wait_and_are_not_counted():
    now = Now()
    rates = ConnectionRates(QuotaWindows(), now)
    rates.limits = AddressLimits({(DEFAULT_INSTANCE, "10.0.0.1"): 2.0})

    def hold_ms(host="10.0.0.1"):
        return rates.hold_ms(DEFAULT_INSTANCE, host)

    assert [hold_ms() for _ in range(20)] == [0] * 20
    assert [hold_ms() for _ in range(5)] == [500] * 5
    assert hold_ms("::ffff:10.0.0.1") == 500, "the same address"
    assert [hold_ms("10.0.0.2") for _ in range(100)] == [0] * 100
    now.ms += 11_000
    assert hold_ms() == 0


def test_none_waits_longer_than_a_window():
    rates = ConnectionRates(QuotaWindows(), Now())
    rates.limits = AddressLimits({(DEFAULT_INSTANCE, None): 0.01})
    assert rates.hold_ms(DEFAULT_INSTANCE, "10.0.0.1") == 1000


def test_without_limits_nothing_is_measured():
    rates = ConnectionRates(QuotaWindows(), lambda: 1 // 0)
    assert rates.hold_ms(DEFAULT_INSTANCE, "10.0.0.1") == 0
