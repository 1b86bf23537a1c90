from highwater.gateway.metrics.quotas import QuotaCollector
from highwater.gateway.quota.core.precedence import Measured
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.quota.quota_world import Now


def test_a_scrape():
    rates = QuotaRates(QuotaWindows(), Now())
    rates.count("producer_byte_rate", 1500)
    rates.count("producer_byte_rate", 700)
    rates.rate(Measured("producer_byte_rate", DEFAULT_INSTANCE, "alice", ""), 0)
    samples = {
        (s.name.removeprefix("highwater_gateway_"), *s.labels.values()): s.value
        for family in QuotaCollector(rates, lambda: 4).collect()
        for s in family.samples
    }
    assert samples["throttled_requests_total", "producer_byte_rate"] == 2
    assert samples["throttle_seconds_total", "producer_byte_rate"] == 2.2
    for kind in ("consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
        assert samples["throttled_requests_total", kind] == 0, "there from the beginning"
    assert samples["throttled_connections_total",] == 4
    assert samples["client_quota_rates",] == 1
