"""The node's metrics, read from the live objects at a scrape: LEO, HW, sizes, groups, lag."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from highwater.partition.service import PartitionService

_PREFIX = "highwater_partition"
_PER_REPLICA = ("topic", "partition")


class PartitionCollector(Collector):
    """Prometheus' view of one node."""

    def __init__(self, service: "PartitionService") -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """One pass over all replicas and groups."""
        yield from self._replicas()
        yield from self._groups()
        yield from self._lag()
        yield from self._damage()

    def _replicas(self) -> Iterable[Metric]:
        plane = self._service.plane
        leo = GaugeMetricFamily(f"{_PREFIX}_log_end_offset", "LEO.", labels=_PER_REPLICA)
        hw = GaugeMetricFamily(f"{_PREFIX}_high_watermark", "HW.", labels=_PER_REPLICA)
        start = GaugeMetricFamily(
            f"{_PREFIX}_log_start_offset", "First offset.", labels=_PER_REPLICA
        )
        size = GaugeMetricFamily(f"{_PREFIX}_log_size_bytes", "Segments.", labels=_PER_REPLICA)
        appended = CounterMetricFamily(f"{_PREFIX}_appended_bytes", "Appended by leaders.")
        fetched = CounterMetricFamily(f"{_PREFIX}_fetched_bytes", "Read for clients.")
        for replica in plane.replicas.values():
            labels = (replica.topic_name, str(replica.partition))
            leo.add_metric(labels, replica.log.log_end_offset)
            hw.add_metric(labels, replica.high_watermark)
            start.add_metric(labels, replica.log.log_start_offset)
            size.add_metric(labels, replica.log.size_bytes)
        appended.add_metric((), plane.appended_bytes)
        fetched.add_metric((), plane.fetched_bytes)
        leaders = sum(replica.leading for replica in plane.replicas.values())
        yield from (leo, hw, start, size, appended, fetched)
        yield GaugeMetricFamily(f"{_PREFIX}_leaders", "Leaders here.", value=leaders)
        yield GaugeMetricFamily(
            f"{_PREFIX}_waiting_fetches", "Long polls.", value=plane.waiting_fetches
        )

    def _groups(self) -> Iterable[Metric]:
        stats = self._service.groups.stats()
        groups = GaugeMetricFamily(f"{_PREFIX}_groups", "Groups by state.", labels=("state",))
        for state, count in stats.groups.items():
            groups.add_metric((state.name.lower(),), count)
        yield groups
        yield GaugeMetricFamily(f"{_PREFIX}_group_members", "Members.", value=stats.members)
        yield GaugeMetricFamily(f"{_PREFIX}_group_parked_calls", "Parked.", value=stats.parked)

    def _lag(self) -> Iterable[Metric]:
        """Lag of committed offsets whose partitions this node leads too."""
        ends = {
            (r.topic_name, r.partition): r.high_watermark
            for r in self._service.plane.replicas.values()
            if r.leading
        }
        lag = GaugeMetricFamily(
            f"{_PREFIX}_group_lag", "HW minus commit.", labels=("group", *_PER_REPLICA)
        )
        for key, topic, partition, offset in self._service.groups.committed_offsets():
            end = ends.get((topic, partition))
            if end is not None:
                lag.add_metric((key.group_id, topic, str(partition)), max(0, end - offset))
        yield lag

    def _damage(self) -> Iterable[Metric]:
        """What the scrubber does and has found."""
        scrubber = self._service.logs.scrubber
        checked = CounterMetricFamily(f"{_PREFIX}_scrubbed_bytes", "Closed segments checked.")
        checked.add_metric((), scrubber.checked_bytes)
        found = CounterMetricFamily(f"{_PREFIX}_damages_found", "Batches with bit rot.")
        found.add_metric((), scrubber.damages)
        repairs = self._service.repairs.stats
        for name, text, value in (
            ("damages_healed", "Damaged ranges healed in place.", repairs.healed),
            ("damaged_replicas_replaced", "Fetched again as a whole.", repairs.replaced),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text)
            counter.add_metric((), value)
            yield counter
        yield GaugeMetricFamily(
            f"{_PREFIX}_damaged_logs_not_healable",
            "Logs with damaged records that no other replica has.",
            value=repairs.not_healable,
        )
        rotten = sum(r.log.rotten for r in self._service.plane.replicas.values())
        yield from (checked, found)
        yield GaugeMetricFamily(
            f"{_PREFIX}_damaged_logs", "Logs with records that cannot be read.", value=rotten
        )
