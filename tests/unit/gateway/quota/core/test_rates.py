from highwater.gateway.quota.core.precedence import Measured
from highwater.gateway.quota.core.rates import DEBTS_IDLE_MS, QuotaRates
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.quota.quota_world import Now

ALICE = Measured("producer_byte_rate", DEFAULT_INSTANCE, "alice", "")
BOB = ALICE._replace(user="bob")


def test_rates_are_forgotten_after_all_windows_and_debts_are_not():
    rates = QuotaRates(QuotaWindows(count=3), Now())
    rates.rate(ALICE, 0)
    tokens = rates.tokens(ALICE, 0)
    assert len(rates) == 2
    rates.rate(BOB, 3001)
    assert len(rates) == 2, "Alice's rate is gone"
    assert rates.tokens(ALICE, DEBTS_IDLE_MS) is tokens


def test_counts_are_kept_by_kind():
    rates = QuotaRates(QuotaWindows(), Now())
    rates.count("a", 100)
    rates.count("a", 50)
    rates.count("b", 1)
    assert {k: (t.requests, t.ms) for k, t in rates.throttled.items()} == {
        "a": (2, 150),
        "b": (1, 1),
    }
