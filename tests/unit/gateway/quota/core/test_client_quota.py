"""What a client with quotas is throttled for, by a clock that the test moves."""

import pytest

from highwater.gateway.quota.core.client_quota import UNLIMITED_BYTES, ClientQuota
from highwater.gateway.quota.core.precedence import ClientLimits, Limit, Measured
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.quota.quota_world import Now

KINDS = {
    "produce": "producer_byte_rate",
    "consume": "consumer_byte_rate",
    "request": "request_percentage",
    "mutation": "controller_mutation_rate",
}
S = 10**9


@pytest.fixture
def now():
    return Now()


@pytest.fixture
def rates(now):
    return QuotaRates(QuotaWindows(), now)


def quota(rates, *, user="alice", **limits):
    made = {
        place: Limit(limits[place], Measured(kind, DEFAULT_INSTANCE, user, ""))
        if place in limits
        else None
        for place, kind in KINDS.items()
    }
    return ClientQuota(ClientLimits(**made), rates)


def counted(rates):
    return {kind: (t.requests, t.ms) for kind, t in rates.throttled.items()}


def test_produce(rates, now):
    q = quota(rates, produce=1000.0)
    assert q.produced(10_000, 0) == 0
    assert q.produced(500, 0) == 500
    assert counted(rates) == {"producer_byte_rate": (1, 500)}
    now.ms += 11_000
    assert q.produced(500, 0) == 0


def test_of_several_delays_the_longest_counts(rates):
    q = quota(rates, produce=1000.0)
    assert q.produced(10_500, 200) == 500
    assert q.produced(0, 3000) == 3000, "the node's"
    assert quota(rates).produced(10**9, 70) == 70


def test_clients_that_are_measured_together_share_their_limit(rates):
    one, two = quota(rates, produce=1000.0), quota(rates, produce=1000.0)
    other = quota(rates, user="bob", produce=1000.0)
    assert one.produced(9000, 0) == 0
    assert two.produced(2000, 0) == 1000
    assert other.produced(9000, 0) == 0


def test_a_fetch_is_held_while_the_client_is_over_its_quota(rates, now):
    q = quota(rates, consume=1000.0)
    assert q.fetch_bytes_max == 1000, "what a window gives"
    assert q.fetch_hold_ms() == 0
    assert q.consumed(12_000, 0) == 2000
    assert q.fetch_hold_ms() == 2000
    assert counted(rates) == {"consumer_byte_rate": (2, 4000)}
    now.ms += 11_000
    assert q.fetch_hold_ms() == 0


def test_without_a_limit_nothing_is_held(rates):
    q = quota(rates, produce=1.0)
    assert q.fetch_bytes_max == UNLIMITED_BYTES
    assert not q.times
    assert q.consumed(10**12, 0) == q.fetch_hold_ms() == 0
    assert q.may_change(10**6, strict=True)
    assert q.request_ended(S, changes=True) == 0
    assert len(rates) == 0


def test_at_least_a_byte_may_be_fetched(rates):
    assert quota(rates, consume=0.5).fetch_bytes_max == 1


def test_time_is_a_share_of_the_loops(rates, now):
    q = quota(rates, request=10.0)
    assert q.times
    q.worked(S)  # 100 % for a second: as much as 10 s of 10 %.
    assert q.request_ended(0, changes=False) == 0
    assert q.request_ended(S // 20, changes=False) == 500
    assert q.request_ended(10 * S, changes=False) == 1000, "at most a window"
    assert q.produced(1, 0) == q.consumed(1, 0) == q.fetch_hold_ms() == 1000
    assert counted(rates) == {"request_percentage": (5, 4500)}
    now.ms += 11_000
    assert q.request_ended(0, changes=False) == 0


def test_partitions(rates, now):
    q = quota(rates, mutation=1.0)
    assert q.may_change(11, strict=True)
    assert q.request_ended(0, changes=True) == 0
    assert q.may_change(3, strict=True), "none are owed"
    assert not q.may_change(1, strict=True)
    assert q.request_ended(0, changes=True) == 3000
    assert q.may_change(1, strict=False)
    assert q.request_ended(0, changes=True) == 4000
    assert q.request_ended(0, changes=False) == 0, "other requests are free"
    now.ms += 4000
    assert q.may_change(1, strict=True)
    assert counted(rates) == {"controller_mutation_rate": (2, 7000)}
