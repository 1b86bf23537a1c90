"""What the guard of the node's disks tells Prometheus."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.partition.node.disk_guard import DiskGuard


class DiskCollector(Collector):
    """Read from the guard at a scrape."""

    def __init__(self, guard: DiskGuard) -> None:
        self._guard = guard

    def collect(self) -> Iterable[Metric]:
        """One value for each log directory."""
        family = GaugeMetricFamily(
            "highwater_partition_disk_nearly_full",
            "1 while clients' produce is refused because of storage.disk_free_min, 2 while all appends "
            "are.",
            labels=("log_dir",),
        )
        for path, state in self._guard.states.items():
            family.add_metric((path,), state.value)
        yield family
