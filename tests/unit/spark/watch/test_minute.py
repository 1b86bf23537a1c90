from __future__ import annotations

import pytest

from highwater.spark.watch.minute import Metric, Minute, empty_minute

MINUTE = Minute(
    start_s=60, requests=8, errors=2, client_errors=1, size_bytes=80, size_p50=5, size_p95=9,
    size_p99=10, latency_p50=1.5, latency_p95=2.5, latency_p99=3.5,
)  # fmt: skip


def test_every_metric_has_a_value():
    assert [MINUTE.value(metric) for metric in Metric] == [
        8, 2, 0.25, 1, 0.125, 80, 5, 9, 10, 1.5, 2.5, 3.5,
    ]  # fmt: skip
    assert MINUTE.end_s == 120


@pytest.mark.parametrize("metric", Metric)
def test_a_minute_without_requests_counts_them_and_knows_no_rates(metric: Metric):
    known = {Metric.REQUESTS, Metric.ERRORS, Metric.CLIENT_ERRORS, Metric.SIZE_BYTES}
    assert empty_minute(0).value(metric) == (0 if metric in known else None)
