"""Metrics of the quota service. Only the overcommit ratio is labelled by instance, of those that have
a limit: there may be thousands.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from highwater.quota.sharing.ledger import Ledger


class QuotaMetrics:
    """Counters of the servicer, and values that are read from the ledger at a scrape."""

    def __init__(self, registry: CollectorRegistry, ledger: Ledger) -> None:
        self.reports = Counter(
            "highwater_quota_reports", "Usage reports taken from nodes.", registry=registry
        )
        self.reports_refused = Counter(
            "highwater_quota_reports_refused",
            "Report streams closed because of an invalid report.",
            ["reason"],
            registry=registry,
        )
        self.allocations = Counter(
            "highwater_quota_allocations", "Allocations sent to nodes.", registry=registry
        )
        self.streams = Gauge(
            "highwater_quota_report_streams", "Nodes connected now.", registry=registry
        )
        _read(
            registry,
            "highwater_quota_limited_instances",
            "Instances with a limit.",
            lambda: len(ledger.limits.instances),
        )
        _read(
            registry,
            "highwater_quota_storage_exhausted_instances",
            "Instances at their storage limit.",
            lambda: sum(1 for _ in ledger.storage),
        )
        registry.register(_Overcommits(ledger))


class _Overcommits(Collector):
    """Read from the ledger at a scrape."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def collect(self) -> Iterable[Metric]:
        """One value for each limit."""
        family = GaugeMetricFamily(
            "highwater_quota_overcommit_ratio",
            "Sum of the shares that nodes may be using, as a ratio to the limit.",
            labels=("instance", "direction"),
        )
        for one in self._ledger.overcommits():
            family.add_metric((one.instance, one.direction), one.ratio)
        yield family


def _read(
    registry: CollectorRegistry, name: str, meaning: str, function: Callable[[], float]
) -> None:
    Gauge(name, meaning, registry=registry).set_function(function)
