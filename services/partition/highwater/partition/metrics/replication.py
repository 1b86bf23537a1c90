"""The node's metrics of replication, read from the live objects at a scrape.

The figures of Kafka's ReplicaManager, Partition and ReplicaFetcherManager, under our own names.
"""

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.metadata.watch import ClusterWatch
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.membership import Membership
from highwater.partition.node.node_replication import NodeReplication
from highwater.partition.node.replicas import Replicas

_PREFIX = "highwater_partition"


class ReplicationCollector(Collector):
    """Collects metrics of what one node leads and follows, for Prometheus."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        replicas: Replicas,
        replication: NodeReplication,
        watch: ClusterWatch,
        membership: Membership,
    ) -> None:
        self._plane = plane
        self._replicas = replicas
        self._replication = replication
        self._watch = watch
        self._membership = membership

    def collect(self) -> Iterable[Metric]:
        """One pass over all replicas, and one over the image's partitions."""
        yield from self._leaders()
        yield from self._isrs()
        yield from self._traffic()
        yield from self._throttles()
        yield _gauge(
            "reassigning_partitions", "Led here, with replicas that come or go.", self._reassigning
        )
        replicas = self._replicas
        yield _counter("leader_elections", "New epochs of replicas here.", replicas.elections)
        offline = sum(len(partitions) for partitions in replicas.offline.values())
        yield _gauge("offline_replicas", "Assigned here and not usable.", offline)
        threads = replicas.conversions
        yield _counter(
            "conversions", "Groups of batches led here, compressed anew.", threads.conversions
        )
        yield _gauge(
            "conversion_waiting_bytes",
            "Bytes of batches that wait for a conversion, or for one before them.",
            threads.waiting_bytes,
        )

    def _leaders(self) -> Iterable[Metric]:
        short = under_min = 0
        lags: dict[int, int] = {}
        for replica in self._plane.replicas.values():
            if not replica.leading:
                continue
            core = replica.core
            short += len(core.isr.committed) < len(core.replicas)
            under_min += core.under_min_isr
            for node, lag in _lags(replica):
                lags[node] = max(lag, lags.get(node, 0))
        yield _gauge("under_replicated_partitions", "Led here, ISR not full.", short)
        yield _gauge("under_min_isr_partitions", "Led here, ISR below the minimum.", under_min)
        family = GaugeMetricFamily(
            f"{_PREFIX}_follower_lag_records",
            "Most that a partition led here has and this follower lacks.",
            labels=("node",),
        )
        for node, records in lags.items():
            family.add_metric((str(node),), records)
        yield family

    def _isrs(self) -> Iterable[Metric]:
        proposals = self._replication.proposals
        yield _counter("isr_shrinks", "ISRs that got smaller.", proposals.shrinks)
        yield _counter("isr_expands", "ISRs that got larger.", proposals.expands)

    def _traffic(self) -> Iterable[Metric]:
        traffic = self._replication.traffic
        yield _by_node("replicated_bytes_out", "Records for followers.", traffic.bytes_out)
        yield _by_node("replicated_bytes_in", "Records of leaders.", traffic.bytes_in)
        yield _by_node(
            "replicated_file_bytes_in",
            "Of these, read from the leader's files.",
            traffic.file_bytes_in,
        )
        yield _counter(
            "replicated_file_misses", "Records that had to come as bytes.", traffic.missed_places
        )

    def _throttles(self) -> Iterable[Metric]:
        replication = self._replication
        passed = CounterMetricFamily(
            f"{_PREFIX}_throttled_replication_bytes", "Of throttled replicas.", labels=("side",)
        )
        holds = CounterMetricFamily(
            f"{_PREFIX}_throttled_replication_holds", "Waits of such replicas.", labels=("side",)
        )
        for throttle in (replication.leader_throttle, replication.follower_throttle):
            passed.add_metric((throttle.side.value,), throttle.passed_bytes)
            holds.add_metric((throttle.side.value,), throttle.holds)
        yield from (passed, holds)

    @property
    def _reassigning(self) -> int:
        image = self._watch.image
        if image is None:
            return 0
        node_id = self._membership.node_id
        return sum(
            state.leader == node_id and bool(state.adding_replicas or state.removing_replicas)
            for topic in image.topics.values()
            for state in topic.partitions
        )


def _lags(replica: PartitionReplica) -> Iterable[tuple[int, int]]:
    """(follower, records that it lacks): all, if it has not fetched in this leader epoch."""
    end, start = replica.log.log_end_offset, replica.log.log_start_offset
    for follower in replica.core.progress:
        yield follower.node, max(0, end - max(follower.log_end_offset, start))


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", documentation, value=value)


def _counter(name: str, documentation: str, value: float) -> Metric:
    return CounterMetricFamily(f"{_PREFIX}_{name}", documentation, value=value)


def _by_node(name: str, documentation: str, values: Mapping[int, int]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", documentation, labels=("node",))
    for node, value in values.items():
        family.add_metric((str(node),), value)
    return family
