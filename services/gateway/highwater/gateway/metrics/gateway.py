"""The gateway's metrics: plain counters on the hot path, turned into Prometheus at a scrape."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.kafka.api_keys import ApiKey

LATENCY_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)


class ApiMeter:
    """Counters of one API."""

    __slots__ = ("buckets", "errors", "latency_ms_total", "request_bytes", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.request_bytes = 0
        self.latency_ms_total = 0
        self.buckets = [0] * (len(LATENCY_BOUNDS_MS) + 1)

    def observe(self, elapsed_ms: int) -> None:
        """Counts one answered request."""
        self.latency_ms_total += elapsed_ms
        self.buckets[0 if elapsed_ms <= 1 else bisect_left(LATENCY_BOUNDS_MS, elapsed_ms)] += 1


class RequestMeter:
    """All APIs of one gateway."""

    def __init__(self) -> None:
        self.apis: dict[int, ApiMeter] = {}
        self.refused = 0
        """Requests that closed their connection: malformed, unknown, or not served."""
        self.failed_replies = 0
        """Replies that could not be made, which is a bug; each closed its connection."""

    def of(self, api_key: int) -> ApiMeter:
        """The meter of one API; keep it rather than asking again."""
        return self.apis.setdefault(api_key, ApiMeter())


class GatewayGauges:
    """What is read at a scrape, given as functions by whoever owns the value."""

    def __init__(self) -> None:
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def add(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Adds a gauge `highwater_gateway_<name>`."""
        self._gauges[name] = (documentation, read)

    def items(self) -> Iterable[tuple[str, str, Callable[[], float]]]:
        """(name, documentation, function) of each."""
        return ((n, d, r) for n, (d, r) in self._gauges.items())


class GatewayCollector(Collector):
    """Prometheus' view of meter and gauges."""

    def __init__(self, meter: RequestMeter, gauges: GatewayGauges) -> None:
        self._meter = meter
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """One pass over all counters."""
        prefix = "highwater_gateway"
        requests = CounterMetricFamily(f"{prefix}_requests", "Requests.", labels=["api"])
        errors = CounterMetricFamily(f"{prefix}_request_errors", "Failed.", labels=["api"])
        nbytes = CounterMetricFamily(f"{prefix}_request_bytes", "Received.", labels=["api"])
        latency = HistogramMetricFamily(
            f"{prefix}_request_latency_seconds", "From whole frame to reply.", labels=["api"]
        )
        for key, meter in self._meter.apis.items():
            api = [ApiKey(key).name.lower()]
            requests.add_metric(api, meter.requests)
            errors.add_metric(api, meter.errors)
            nbytes.add_metric(api, meter.request_bytes)
            buckets: list[tuple[str, float]] = []
            total = 0
            for bound, count in zip(LATENCY_BOUNDS_MS, meter.buckets, strict=False):
                total += count
                buckets.append((str(bound / 1000), total))
            buckets.append(("+Inf", total + meter.buckets[-1]))
            latency.add_metric(api, buckets, meter.latency_ms_total / 1000)
        refused = CounterMetricFamily(f"{prefix}_refused_requests", "Closed the connection.")
        refused.add_metric([], self._meter.refused)
        failed = CounterMetricFamily(f"{prefix}_failed_replies", "Bugs that closed a connection.")
        failed.add_metric([], self._meter.failed_replies)
        yield from (requests, errors, nbytes, latency, refused, failed)
        for name, documentation, read in self._gauges.items():
            yield GaugeMetricFamily(f"{prefix}_{name}", documentation, value=read())
