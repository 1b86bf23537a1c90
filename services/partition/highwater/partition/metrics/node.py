"""The node's metrics, read from the live objects at a scrape: LEO, HW, sizes, groups, lag."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.core.producer_budget import ProducerBudget
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.groups.core.state import GroupState
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.node.repairs import Repairs
from highwater.partition.node.replicas import Replicas
from highwater.partition.storage.scrubbing.scrubber import LogScrubber

_PREFIX = "highwater_partition"
_PER_REPLICA = ("topic", "partition")

SERIES_MAX: Final = 1_000
"""Replicas and group partitions listed with their own values, since a scrape runs on the loop."""


class PartitionCollector(Collector):
    """Collects one node's metrics for Prometheus."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        replicas: Replicas,
        groups: Sequence[GroupCoordinator],
        scrubber: LogScrubber,
        repairs: Repairs,
        producers: ProducerBudget,
    ) -> None:
        """The counts of `groups`' coordinators are added up."""
        self._plane = plane
        self._node_replicas = replicas
        self._groups = groups
        self._scrubber = scrubber
        self._budget = producers
        self._repairs = repairs

    def collect(self) -> Iterable[Metric]:
        """One pass over all replicas and groups."""
        yield from self._replicas()
        yield from self._group_counts()
        yield from self._lag()
        yield from self._damage()
        yield from self._producers()

    def _replicas(self) -> Iterable[Metric]:
        plane = self._plane
        leo = GaugeMetricFamily(
            f"{_PREFIX}_log_end_offset", "Offset after the last record.", labels=_PER_REPLICA
        )
        hw = GaugeMetricFamily(
            f"{_PREFIX}_high_watermark",
            "Offset after the last committed record, as this node knows it.",
            labels=_PER_REPLICA,
        )
        start = GaugeMetricFamily(
            f"{_PREFIX}_log_start_offset", "First offset that can be read.", labels=_PER_REPLICA
        )
        size = GaugeMetricFamily(
            f"{_PREFIX}_log_size_bytes", "Bytes of all segments.", labels=_PER_REPLICA
        )
        appended = CounterMetricFamily(
            f"{_PREFIX}_appended_bytes", "Bytes of batches appended by leaders here."
        )
        fetched = CounterMetricFamily(
            f"{_PREFIX}_fetched_bytes", "Bytes of batches that were read here for clients."
        )
        for replica in islice(plane.replicas.values(), SERIES_MAX):
            labels = (replica.topic_name, str(replica.partition))
            leo.add_metric(labels, replica.log.log_end_offset)
            hw.add_metric(labels, replica.high_watermark)
            start.add_metric(labels, replica.log.log_start_offset)
            size.add_metric(labels, replica.log.extent.size_bytes)
        appended.add_metric((), plane.appended_bytes)
        fetched.add_metric((), plane.fetched_bytes)
        leaders = sum(replica.leading for replica in plane.replicas.values())
        yield from (leo, hw, start, size, appended, fetched)
        yield GaugeMetricFamily(f"{_PREFIX}_leaders", "Partitions led here.", value=leaders)
        yield GaugeMetricFamily(
            f"{_PREFIX}_replicas_not_shown",
            "Replicas here that have no values of their own above.",
            value=max(0, len(plane.replicas) - SERIES_MAX),
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_waiting_fetches",
            "Fetches that wait for records.",
            value=plane.waiting_fetches,
        )

    def _group_counts(self) -> Iterable[Metric]:
        stats = [coordinator.stats() for coordinator in self._groups]
        groups = GaugeMetricFamily(f"{_PREFIX}_groups", "Groups by state.", labels=("state",))
        for state in GroupState:
            count = sum(one.groups.get(state, 0) for one in stats)
            groups.add_metric((state.name.lower(),), count)
        yield groups
        yield GaugeMetricFamily(
            f"{_PREFIX}_group_members",
            "Members of all groups.",
            value=sum(one.members for one in stats),
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}_group_parked_calls",
            "Requests of members that wait (JoinGroup, SyncGroup).",
            value=sum(one.parked for one in stats),
        )

    def _lag(self) -> Iterable[Metric]:
        """Lag of committed offsets of the default instance, for partitions that this node leads."""
        ends = {
            (r.topic_name, r.partition): r.high_watermark
            for r in self._node_replicas.of_instance(DEFAULT_INSTANCE)
            if r.leading
        }
        lag = GaugeMetricFamily(
            f"{_PREFIX}_group_lag",
            "High watermark minus committed offset, where both are here, of the default instance.",
            labels=("group", *_PER_REPLICA),
        )
        known = 0
        commits = chain.from_iterable(one.committed_offsets() for one in self._groups)
        for key, topic, partition, offset in commits:
            end = ends.get((topic, partition))
            if end is not None and key.instance == DEFAULT_INSTANCE:
                known += 1
                if known <= SERIES_MAX:
                    lag.add_metric((key.group_id, topic, str(partition)), max(0, end - offset))
        yield lag
        yield GaugeMetricFamily(
            f"{_PREFIX}_group_lags_not_shown",
            "Lags that are known here and have no values of their own above.",
            value=max(0, known - SERIES_MAX),
        )

    def _damage(self) -> Iterable[Metric]:
        """What the scrubber has read and found."""
        scrubber = self._scrubber
        checked = CounterMetricFamily(f"{_PREFIX}_scrubbed_bytes", "Closed segments checked.")
        checked.add_metric((), scrubber.checked_bytes)
        found = CounterMetricFamily(f"{_PREFIX}_damages_found", "Batches with bit rot.")
        found.add_metric((), scrubber.damages)
        repairs = self._repairs.stats
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
        rotten = sum(r.log.rotten for r in self._plane.replicas.values())
        yield from (checked, found)
        yield GaugeMetricFamily(
            f"{_PREFIX}_damaged_logs", "Logs with records that cannot be read.", value=rotten
        )

    def _producers(self) -> Iterable[Metric]:
        """Idempotent producers in the partitions' producer state."""
        budget = self._budget
        yield GaugeMetricFamily(
            f"{_PREFIX}_producer_ids", "Idempotent producers with state.", value=budget.count
        )
        evicted = CounterMetricFamily(
            f"{_PREFIX}_producer_ids_evicted", "Forgotten because there were too many."
        )
        evicted.add_metric((), budget.evicted)
        yield evicted
