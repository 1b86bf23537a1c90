"""One minute of traffic, and the metrics that rules name."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S


class Metric(StrEnum):
    """What rules may name. Rates are shares of the requests, sizes bytes, latencies ms."""

    REQUESTS = "requests"
    ERRORS = "errors"
    ERROR_RATE = "error_rate"
    CLIENT_ERRORS = "client_errors"
    CLIENT_ERROR_RATE = "client_error_rate"
    SIZE_BYTES = "size_bytes"
    SIZE_P50 = "size_p50"
    SIZE_P95 = "size_p95"
    SIZE_P99 = "size_p99"
    LATENCY_P50 = "latency_p50"
    LATENCY_P95 = "latency_p95"
    LATENCY_P99 = "latency_p99"


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """Traffic from `start_s` (seconds since 1970, UTC) for a minute.

    `errors` were answered with a status from 500 on, `client_errors` with 400 to 499. Percentiles are
    None where no request has the value.
    """

    start_s: int
    requests: int
    errors: int = 0
    client_errors: int = 0
    size_bytes: int = 0
    size_p50: int | None = None
    size_p95: int | None = None
    size_p99: int | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    latency_p99: float | None = None

    @property
    def error_rate(self) -> float | None:
        """The share of errors; None without a request."""
        return self.errors / self.requests if self.requests else None

    @property
    def client_error_rate(self) -> float | None:
        """The share of client errors; None without a request."""
        return self.client_errors / self.requests if self.requests else None

    @property
    def end_s(self) -> int:
        """When it ends."""
        return self.start_s + MINUTE_S

    def value(self, metric: Metric) -> float | None:
        """Returns a metric's value; None where the minute says nothing about it."""
        found: float | None = getattr(self, metric.value)
        return found


def empty_minute(start_s: int) -> Minute:
    """Returns a minute without a request."""
    return Minute(start_s=start_s, requests=0)
