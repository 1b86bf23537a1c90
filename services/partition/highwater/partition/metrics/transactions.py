"""Metrics of the transaction coordinator, read from the live objects at a scrape."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.runtime import TransactionCoordinator, TransactionStats

_PREFIX: Final = "highwater_partition_txn"


class TransactionCollector(Collector):
    """Collects one node's metrics of transactions for Prometheus."""

    def __init__(self, coordinators: Sequence[TransactionCoordinator]) -> None:
        """Their figures are added up."""
        self._coordinators = coordinators

    def collect(self) -> Iterable[Metric]:
        """One pass over all transactional ids."""
        stats = sum_of([coordinator.stats() for coordinator in self._coordinators])
        by_state = GaugeMetricFamily(
            f"{_PREFIX}_transactional_ids", "Transactional ids by state.", labels=("state",)
        )
        for state, count in stats.transactions.items():
            by_state.add_metric((state.name.lower(),), count)
        yield by_state
        for name, text, gauge in (
            ("markers_waiting", "Markers that partitions do not have yet.", stats.markers_waiting),
            ("shards", "Partitions of transaction states coordinated here.", stats.shards_active),
            ("shards_loading", "Partitions of them that are being loaded.", stats.shards_loading),
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


def sum_of(stats: Sequence[TransactionStats]) -> TransactionStats:
    """The figures of several coordinators."""
    return TransactionStats(
        transactions={
            state: sum(one.transactions.get(state, 0) for one in stats)
            for state in TransactionState
        },
        markers_waiting=sum(one.markers_waiting for one in stats),
        markers_written=sum(one.markers_written for one in stats),
        marker_failures=sum(one.marker_failures for one in stats),
        shards_active=sum(one.shards_active for one in stats),
        shards_loading=sum(one.shards_loading for one in stats),
    )
