"""Metrics of the transaction coordinator, read from the live objects at a scrape."""

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.partition.transactions.runtime import TransactionCoordinator

_PREFIX: Final = "highwater_partition_txn"


class TransactionCollector(Collector):
    """Collects one node's metrics of transactions for Prometheus."""

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def collect(self) -> Iterable[Metric]:
        """One pass over all transactional ids."""
        stats = self._transactions.stats()
        by_state = GaugeMetricFamily(
            f"{_PREFIX}_transactional_ids", "Transactional ids by state.", labels=("state",)
        )
        for state, count in stats.transactions.items():
            by_state.add_metric((state.name.lower(),), count)
        yield by_state
        for name, text, gauge in (
            ("markers_waiting", "Markers that partitions do not have yet.", stats.markers_waiting),
            ("shards", "Partitions of __transaction_state coordinated here.", stats.shards_active),
            ("shards_loading", "Partitions of it that are being loaded.", stats.shards_loading),
        ):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=gauge)
        for name, text, count in (
            ("markers_written", "Markers that partitions have.", stats.markers_written),
            (
                "marker_failures",
                "Attempts to write a marker that a leader refused or did not answer.",
                stats.marker_failures,
            ),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text)
            counter.add_metric((), count)
            yield counter
