"""Metrics of the quota service. Nothing is labelled by instance: there may be thousands."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

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
            lambda: sum(ledger.storage_exhausted(one) for one in ledger.limits.instances),
        )
        _read(
            registry,
            "highwater_quota_overcommit_ratio",
            "Largest ratio of the sum of an instance's shares to its limit.",
            ledger.overcommit_ratio,
        )


def _read(
    registry: CollectorRegistry, name: str, meaning: str, function: Callable[[], float]
) -> None:
    Gauge(name, meaning, registry=registry).set_function(function)
