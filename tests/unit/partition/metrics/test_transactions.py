from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from highwater.partition.metrics.transactions import TransactionCollector
from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.runtime import TransactionStats


def test_every_figure_is_collected():
    stats = TransactionStats(
        transactions={TransactionState.ONGOING: 3, TransactionState.PREPARE_COMMIT: 2},
        markers_waiting=4,
        markers_written=50,
        marker_failures=6,
        shards_active=7,
        shards_loading=8,
    )
    others = TransactionStats(
        transactions={TransactionState.ONGOING: 30},
        markers_waiting=40,
        markers_written=500,
        marker_failures=60,
        shards_active=70,
        shards_loading=80,
    )
    registry = CollectorRegistry()
    registry.register(
        TransactionCollector(
            [SimpleNamespace(stats=each) for each in (lambda: stats, lambda: others)]
        )
    )

    def value(name, **labels):
        return registry.get_sample_value(f"highwater_partition_txn_{name}", labels)

    assert value("transactional_ids", state="ongoing") == 33
    assert value("transactional_ids", state="prepare_commit") == 2
    assert value("markers_waiting") == 44
    assert value("markers_written_total") == 550
    assert value("marker_failures_total") == 66
    assert (value("shards"), value("shards_loading")) == (77, 88)
