"""All that a node tells Prometheus."""

from collections.abc import Iterator

from prometheus_client.registry import Collector

from highwater.hop.channels import HopChannels
from highwater.hop.metrics import HopCollector
from highwater.metadata.watch import ClusterWatch
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.node_server import NodeServer
from highwater.partition.metrics.cleaner import CleanerCollector
from highwater.partition.metrics.disks import DiskCollector
from highwater.partition.metrics.moves import MoveCollector
from highwater.partition.metrics.node import PartitionCollector
from highwater.partition.metrics.replication import ReplicationCollector
from highwater.partition.metrics.transactions import TransactionCollector
from highwater.partition.node.coordinators import NodeCoordinators
from highwater.partition.node.disk_guard import DiskGuard
from highwater.partition.node.logs import NodeLogs
from highwater.partition.node.membership import Membership
from highwater.partition.node.node_replication import NodeReplication
from highwater.partition.node.repairs import Repairs
from highwater.partition.node.replicas import Replicas


def node_collectors(
    *,
    plane: DataPlane,
    coordinators: NodeCoordinators,
    logs: NodeLogs,
    repairs: Repairs,
    disk_guard: DiskGuard,
    replicas: Replicas,
    replication: NodeReplication,
    watch: ClusterWatch,
    membership: Membership,
    channels: HopChannels,
    server: NodeServer | None,
) -> Iterator[Collector]:
    """The collectors of one node; without `server` nobody calls it."""
    yield PartitionCollector(
        plane=plane,
        replicas=replicas,
        groups=[pair.groups for pair in coordinators.pairs],
        scrubber=logs.scrubber,
        repairs=repairs,
        producers=logs.manager.producers,
    )
    yield ReplicationCollector(
        plane=plane,
        replicas=replicas,
        replication=replication,
        watch=watch,
        membership=membership,
    )
    yield DiskCollector(disk_guard)
    yield CleanerCollector(logs.cleaner.stats)
    yield MoveCollector(logs.moves)
    yield TransactionCollector([pair.transactions for pair in coordinators.pairs])
    ends = {"client": channels.statistics}
    if server is not None:
        ends["server"] = server.statistics
    yield HopCollector("highwater_partition", ends)
