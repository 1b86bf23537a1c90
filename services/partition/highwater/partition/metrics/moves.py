"""Metrics of replicas that move between the log directories of the node."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.partition.node.replica_moves import ReplicaMoves

_PREFIX = "highwater_partition_replica_moves"


class MoveCollector(Collector):
    """Reads one node's moves at a scrape."""

    def __init__(self, moves: ReplicaMoves) -> None:
        self._moves = moves

    def collect(self) -> Iterable[Metric]:
        """The moves that are not completed, and totals since the start."""
        moves, stats = self._moves, self._moves.stats
        yield GaugeMetricFamily(
            _PREFIX,
            "Replicas that move to another log directory, or wait for it.",
            value=len(moves),
        )
        for name, text, value in (
            ("completed", "Replicas that are in another log directory now.", stats.completed),
            ("given_up", "Replicas that stayed where they were, with a warning.", stats.given_up),
            ("bytes", "Bytes of records of completed moves.", stats.copied_bytes),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text)
            counter.add_metric((), value)
            yield counter
