"""The gateway's counters in a Prometheus scrape."""

from highwater.gateway.core.meters import FETCH, RequestMeters
from highwater.gateway.metrics.gateway import GatewayCollector, GatewayReadings, error_name
from highwater.kafka.error_codes import ErrorCode

PREFIX = "highwater_gateway"


def scraped(meters, readings):
    return {
        (s.name.removeprefix(f"{PREFIX}_"), *s.labels.values()): s.value
        for family in GatewayCollector(meters, readings).collect()
        for s in family.samples
    }


def test_a_scrape():
    meters, readings = RequestMeters(), GatewayReadings()
    fetch = meters.apis[FETCH]
    fetch.answered(3, 288, 5000, 700_000)
    fetch.answered(1, 12, 0, 40_000_000_000)
    fetch.failed(ErrorCode.OFFSET_OUT_OF_RANGE)
    meters.refused, meters.failed_replies = 2, 5
    readings.gauge("connections", "Open.", lambda: 7.0)
    readings.counter("refused_connections", "Refused.", lambda: 9)
    samples = scraped(meters, readings)
    assert samples["requests_total", "fetch"] == 4
    assert samples["request_bytes_total", "fetch"] == 300 + 4 * 4, "as on the wire"
    assert samples["response_bytes_total", "fetch"] == 5000
    assert samples["request_errors_total", "fetch", "OFFSET_OUT_OF_RANGE"] == 1
    assert samples["refused_requests_total",] == 2
    assert samples["failed_replies_total",] == 5
    assert samples["connections",] == 7
    assert samples["refused_connections_total",] == 9
    assert samples["request_latency_seconds_bucket", "fetch", "0.0005"] == 0
    assert samples["request_latency_seconds_bucket", "fetch", "0.001"] == 3
    assert samples["request_latency_seconds_bucket", "fetch", "30.0"] == 3
    assert samples["request_latency_seconds_bucket", "fetch", "+Inf"] == 4
    assert samples["request_latency_seconds_count", "fetch"] == 4
    assert samples["request_latency_seconds_sum", "fetch"] == 40.0021


def test_produce_and_fetch_are_there_before_the_first_request():
    samples = scraped(RequestMeters(), GatewayReadings())
    assert samples["requests_total", "produce"] == samples["requests_total", "fetch"] == 0


def test_errors_have_kafkas_names_and_unknown_codes_have_one():
    assert error_name(3) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert error_name(31_000) == error_name(-77) == "UNKNOWN"
