"""Counters as Prometheus sees them."""

from highwater.gateway.metrics.gateway import GatewayCollector, GatewayGauges, RequestMeter


def test_a_scrape():
    meter, gauges = RequestMeter(), GatewayGauges()
    fetch = meter.of(1)
    assert meter.of(1) is fetch
    fetch.requests, fetch.request_bytes = 3, 300
    for elapsed_ms in (0, 1, 2, 3, 40_000):
        fetch.observe(elapsed_ms)
    meter.refused, meter.failed_replies = 2, 5
    gauges.add("connections", "Open.", lambda: 7.0)
    samples = {
        (s.name, *sorted(s.labels.values())): s.value
        for family in GatewayCollector(meter, gauges).collect()
        for s in family.samples
    }
    prefix = "highwater_gateway"
    assert samples[f"{prefix}_requests_total", "fetch"] == 3
    assert samples[f"{prefix}_request_bytes_total", "fetch"] == 300
    assert samples[f"{prefix}_refused_requests_total",] == 2
    assert samples[f"{prefix}_failed_replies_total",] == 5
    assert samples[f"{prefix}_connections",] == 7
    buckets = f"{prefix}_request_latency_seconds_bucket"
    assert samples[buckets, "0.001", "fetch"] == 2
    assert samples[buckets, "0.002", "fetch"] == 3
    assert samples[buckets, "0.005", "fetch"] == 4
    assert samples[buckets, "30.0", "fetch"] == 4
    assert samples[buckets, "+Inf", "fetch"] == 5
    assert samples[f"{prefix}_request_latency_seconds_sum", "fetch"] == 40.006
