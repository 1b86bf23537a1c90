"""The gateway's metrics as Prometheus sees them, read from plain counters at a scrape."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.gateway.core.meters import LATENCY_BOUNDS_S, ApiMeter, RequestMeters
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode

PREFIX: Final = "highwater_gateway"
SIZE_PREFIX: Final = 4
"""Bytes in front of every request frame."""

Read = Callable[[], float]


class GatewayReadings:
    """Single values, each read at a scrape by a function of its owner."""

    def __init__(self) -> None:
        self._values: list[tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, Read]]
        self._values = []

    def gauge(self, name: str, documentation: str, read: Read) -> None:
        """Adds a value that goes up and down, `highwater_gateway_<name>`."""
        self._values.append((GaugeMetricFamily, name, documentation, read))

    def counter(self, name: str, documentation: str, read: Read) -> None:
        """Adds a value that only grows, `highwater_gateway_<name>_total`."""
        self._values.append((CounterMetricFamily, name, documentation, read))

    def collect(self) -> Iterable[Metric]:
        """Reads all of them."""
        for kind, name, documentation, read in self._values:
            yield kind(f"{PREFIX}_{name}", documentation, value=read())


class GatewayCollector(Collector):
    """Prometheus' view of a gateway's requests, and of its other readings."""

    def __init__(self, meters: RequestMeters, readings: GatewayReadings) -> None:
        self._meters = meters
        self._readings = readings

    def collect(self) -> Iterable[Metric]:
        """One pass over all counters."""
        meters = self._meters
        yield from _requests({name_of(key): meter for key, meter in meters.apis.items()})
        yield CounterMetricFamily(
            f"{PREFIX}_refused_requests",
            "Requests whose connection was closed: malformed, unknown, or of a version not served.",
            value=meters.refused,
        )
        yield CounterMetricFamily(
            f"{PREFIX}_failed_replies",
            "Replies that could not be made, each a bug; their connections were closed.",
            value=meters.failed_replies,
        )
        yield from self._readings.collect()


def _requests(apis: dict[str, ApiMeter]) -> Iterable[Metric]:
    """The metrics with a label `api`."""
    requests = CounterMetricFamily(
        f"{PREFIX}_requests", "Requests that were answered (acks=0: done).", labels=["api"]
    )
    bytes_in = CounterMetricFamily(
        f"{PREFIX}_request_bytes", "Bytes of these requests, as received.", labels=["api"]
    )
    bytes_out = CounterMetricFamily(
        f"{PREFIX}_response_bytes", "Bytes of the replies, as sent.", labels=["api"]
    )
    latency = HistogramMetricFamily(
        f"{PREFIX}_request_latency_seconds",
        "From the arrival of a whole request to the loop turn in which its reply left, including"
        " waits for earlier replies of the connection and for records to fetch.",
        labels=["api"],
    )
    errors = CounterMetricFamily(
        f"{PREFIX}_request_errors",
        "Errors in responses, by Kafka's name: of partitions for Produce and Fetch, of whole"
        " responses and their elements for other APIs.",
        labels=["api", "error"],
    )
    for api, meter in apis.items():
        requests.add_metric([api], meter.requests)
        bytes_in.add_metric([api], meter.bytes_in + SIZE_PREFIX * meter.requests)
        bytes_out.add_metric([api], meter.bytes_out)
        latency.add_metric([api], _cumulated(meter.buckets), meter.latency_ns / 1e9)
        for code, count in meter.errors.items():
            errors.add_metric([api, error_name(code)], count)
    return (requests, bytes_in, bytes_out, latency, errors)


def _cumulated(buckets: list[int]) -> list[tuple[str, float]]:
    """(upper bound in seconds, requests up to it) of each bucket."""
    total = 0
    cumulated: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, LATENCY_BOUNDS_S), "+Inf"), buckets, strict=True):
        total += count
        cumulated.append((bound, total))
    return cumulated


def name_of(api_key: int) -> str:
    """The value of the label `api`."""
    return ApiKey(api_key).name.lower()


def error_name(code: int) -> str:
    """The value of the label `error`; one name for all codes that Kafka does not have."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return "UNKNOWN"
