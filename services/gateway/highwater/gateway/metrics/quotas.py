"""What client quotas do, as Prometheus sees it."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.gateway.metrics.gateway import PREFIX
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.model.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

KINDS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)


class QuotaCollector(Collector):
    """Read at a scrape."""

    def __init__(self, rates: QuotaRates, refused_connections: Callable[[], int]) -> None:
        self._rates = rates
        self._refused_connections = refused_connections

    def collect(self) -> Iterable[Metric]:
        """One pass over the counters; every kind is there from the beginning."""
        requests = CounterMetricFamily(
            f"{PREFIX}_throttled_requests",
            "Requests whose client was throttled by a client quota, by the quota with the longest delay.",
            labels=["quota"],
        )
        seconds = CounterMetricFamily(
            f"{PREFIX}_throttle_seconds",
            "Seconds for which client quotas have throttled clients (Kafka: throttle-time).",
            labels=["quota"],
        )
        for kind in KINDS:
            throttled = self._rates.throttled[kind]
            requests.add_metric([kind], throttled.requests)
            seconds.add_metric([kind], throttled.ms / 1000)
        yield requests
        yield seconds
        yield CounterMetricFamily(
            f"{PREFIX}_throttled_connections",
            "Connections closed because their address opened too many (connection_creation_rate).",
            value=self._refused_connections(),
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_client_quota_rates",
            "Rates measured for client quotas now.",
            value=len(self._rates),
        )
