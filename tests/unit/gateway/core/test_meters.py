"""What is counted for each API."""

import pytest

from highwater.gateway.core.meters import (
    FETCH,
    LATENCY_BOUNDS_S,
    PRODUCE,
    ApiMeter,
    Departures,
    RequestMeters,
)


@pytest.mark.parametrize(
    ("latency_ns", "bucket"),
    [
        (0, 0),
        (500_000, 0),
        (500_001, 1),
        (30_000_000_000, len(LATENCY_BOUNDS_S) - 1),
        (30_000_000_001, len(LATENCY_BOUNDS_S)),
    ],
)
def test_a_latency_counts_in_the_first_bucket_whose_bound_it_does_not_exceed(latency_ns, bucket):
    meter = ApiMeter()
    meter.answered(2, 10, 20, latency_ns)
    assert [n for n, count in enumerate(meter.buckets) if count] == [bucket]
    assert meter.buckets[bucket] == meter.requests == 2
    assert (meter.bytes_in, meter.bytes_out) == (10, 20)
    assert meter.latency_ns == 2 * latency_ns


def test_errors_count_by_code():
    meter = ApiMeter()
    for code in (3, 6, 3):
        meter.failed(code)
    meter.failed(6, 5)
    assert meter.errors == {3: 2, 6: 6}


def test_every_api_has_one_meter():
    meters = RequestMeters()
    assert meters.apis[PRODUCE] is meters.produce
    assert meters.apis[FETCH] is meters.fetch
    assert meters.apis[18] is meters.apis[18]


def test_departures_are_counted_once_by_kind_and_arrival():
    meters = RequestMeters()
    departures = Departures(meters)
    departures.begin(PRODUCE, 1_000_000, 9_000_000)
    for api_key, arrived_ns in ((PRODUCE, 2_000_000), (FETCH, 2_000_000), (PRODUCE, 3_000_000)):
        departures.requests += 2
        departures.bytes_in += 30
        departures.bytes_out += 500
        departures.begin(api_key, arrived_ns, 9_000_000)
    assert (meters.produce.requests, meters.fetch.requests) == (4, 2)
    for _ in range(2):
        departures.settle(9_000_000)
    assert (meters.produce.bytes_in, meters.produce.bytes_out) == (60, 1000)
    assert (meters.fetch.bytes_in, meters.fetch.bytes_out) == (30, 500)
    assert (meters.produce.latency_ns, meters.fetch.latency_ns) == (
        2 * 8 * 10**6 + 2 * 7 * 10**6,
        14 * 10**6,
    )
