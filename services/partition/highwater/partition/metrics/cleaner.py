"""The metrics of log compaction on one node, read from the cleaner at a scrape.

The figures of Kafka's LogCleaner and LogCleanerManager, under our own names.
"""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.partition.storage.cleaning.cleaner import CleanerStats

_PREFIX = "highwater_partition_cleaner"


class CleanerCollector(Collector):
    """Collects one node's cleaner metrics for Prometheus."""

    def __init__(self, stats: CleanerStats) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """The cleaner's figures now."""
        stats = self._stats
        yield _counter("runs", "Passes over a log that came to their end.", stats.runs)
        yield _counter("failed_runs", "Passes that did not work.", stats.failed_runs)
        yield _counter("aborted_runs", "Passes over logs that changed or went.", stats.aborted_runs)
        yield _counter("bytes_before", "Segments that were cleaned.", stats.bytes_before)
        yield _counter("bytes_after", "What was left of them.", stats.bytes_after)
        yield _counter("dropped_records", "Compacted away.", stats.records_dropped)
        yield _gauge("uncleanable_partitions", "Left alone until a restart.", stats.uncleanable)
        yield _gauge(
            "max_dirty_ratio", "Of the dirtiest log, at the last look.", stats.dirty_ratio_max
        )


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"{_PREFIX}_{name}", text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)
