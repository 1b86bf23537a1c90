from types import SimpleNamespace

from highwater.hop.metrics import HopCollector
from highwater.partition.metrics.cleaner import CleanerCollector
from highwater.partition.metrics.collectors import node_collectors
from highwater.partition.metrics.disks import DiskCollector
from highwater.partition.metrics.moves import MoveCollector
from highwater.partition.metrics.node import PartitionCollector
from highwater.partition.metrics.replication import ReplicationCollector
from highwater.partition.metrics.transactions import TransactionCollector


def collectors(server):
    logs = SimpleNamespace(
        scrubber=None,
        manager=SimpleNamespace(producers=None),
        cleaner=SimpleNamespace(stats=None),
        moves=None,
    )
    return list(
        node_collectors(
            plane=None,
            coordinators=SimpleNamespace(pairs=[]),
            logs=logs,
            repairs=None,
            disk_guard=None,
            replicas=None,
            replication=None,
            watch=None,
            membership=None,
            channels=SimpleNamespace(statistics=lambda: None),
            server=server,
        )
    )


def test_a_node_has_each_collector_once():
    kinds = [
        PartitionCollector,
        ReplicationCollector,
        DiskCollector,
        CleanerCollector,
        MoveCollector,
        TransactionCollector,
        HopCollector,
    ]
    for server in (None, SimpleNamespace(statistics=lambda: None)):
        assert [type(each) for each in collectors(server)] == kinds
