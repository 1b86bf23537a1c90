from prometheus_client import CollectorRegistry

from highwater.partition.metrics.moves import MoveCollector
from highwater.partition.node.replica_moves import MoveStats


class Moves:
    def __init__(self):
        self.stats = MoveStats()
        self.count = 2

    def __len__(self):
        return self.count


def test_every_figure_is_collected():
    moves = Moves()
    moves.stats.completed, moves.stats.given_up, moves.stats.copied_bytes = 3, 4, 500
    registry = CollectorRegistry()
    registry.register(MoveCollector(moves))

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"highwater_partition_replica_moves{name}")

    assert [value(name) for name in ("", "_completed_total", "_given_up_total")] == [2, 3, 4]
    assert value("_bytes_total") == 500
    moves.count = 0
    assert value("") == 0
