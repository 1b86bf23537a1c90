"""The table of nodes on one host; the runs themselves need clusters."""

from __future__ import annotations

from tests.bench.nodes import PEERS, ROWS, Window, table
from tests.bench.peers import make_peer
from tests.bench.workloads import select


def windows(row: str, nodes: int, values: list[float]) -> list[Window]:
    return [
        Window(row=row, nodes=nodes, value=value, p99_us=900.0, server_cpu_us=10.0)
        for value in values
    ]


def test_each_number_of_nodes_is_compared_with_one() -> None:
    row = ROWS[0]
    found = windows(row, 2, [30, 50, 40]) + windows(row, 1, [10, 30, 20])
    assert table(select([row]), found) == [
        [row, "MB/s", "1", "20 (10-30)", "1.00", "900", "10.0"],
        [row, "MB/s", "2", "40 (30-50)", "2.00", "900", "10.0"],
    ]
    assert [line[4] for line in table(select([row]), windows(row, 2, [30]))] == ["-"]


def test_the_clusters_have_one_two_and_three_nodes() -> None:
    assert [make_peer(name).nodes for name in PEERS] == [1, 2, 3]
