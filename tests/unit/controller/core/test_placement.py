"""Kafka's placement: random start, shifted replicas, alternating racks."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.controller.core.placement import alternate_racks, place_replicas, walk_start
from highwater.model.ids import NodeId


def racks(*names: str) -> dict[NodeId, str]:
    return {NodeId(n): rack for n, rack in enumerate(names, 1)}


def fixed(*numbers: int):  # type: ignore[no-untyped-def]
    left = list(numbers)
    return lambda below: left.pop(0) % below


def test_kafkas_own_example() -> None:
    """Five nodes, ten partitions, three replicas, start 0 and shift 0: the table of AdminUtils."""
    placed = place_replicas(
        racks("a", "a", "a", "a", "a"),
        partitions=10,
        replication_factor=3,
        random_below=fixed(0, 0),
    )
    assert placed == [
        (1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 1), (5, 1, 2),
        (1, 3, 4), (2, 4, 5), (3, 5, 1), (4, 1, 2), (5, 2, 3),
    ]  # fmt: skip


def test_the_start_is_random() -> None:
    starts = {
        place_replicas(
            racks("a", "b", "c"), partitions=1, replication_factor=1, random_below=fixed(n, 0)
        )[0]
        for n in range(3)
    }
    assert starts == {(1,), (2,), (3,)}


def test_racks_alternate() -> None:
    """Kafka's example: racks of two nodes each alternate."""
    by_rack = {
        NodeId(0): "1",
        NodeId(1): "3",
        NodeId(2): "3",
        NodeId(3): "2",
        NodeId(4): "2",
        NodeId(5): "1",
    }
    assert alternate_racks(by_rack) == [0, 3, 1, 5, 4, 2]


def test_one_node() -> None:
    placed = place_replicas(
        racks("a"), partitions=3, replication_factor=1, random_below=random.Random(1).randrange
    )
    assert placed == [(1,)] * 3


def test_added_partitions_go_on_with_the_walk() -> None:
    nodes = racks("a", "b", "c", "d")
    whole = place_replicas(nodes, partitions=8, replication_factor=1, random_below=fixed(2, 2))
    first = place_replicas(nodes, partitions=3, replication_factor=1, random_below=fixed(2, 2))
    rest = place_replicas(
        nodes,
        partitions=5,
        replication_factor=1,
        random_below=fixed(),
        first_partition=3,
        start=walk_start(nodes, first[0][0]),
    )
    assert first + rest == whole


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    factor=st.integers(1, 6),
    partitions=st.integers(1, 60),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=200, deadline=None)
def test_replicas_are_distinct_and_spread(
    sizes: list[int], factor: int, partitions: int, seed: int
) -> None:
    names = [f"r{rack}" for rack, size in enumerate(sizes) for _ in range(size)]
    nodes = racks(*names)
    factor = min(factor, len(nodes))
    placed = place_replicas(
        nodes,
        partitions=partitions,
        replication_factor=factor,
        random_below=random.Random(seed).randrange,
    )
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({nodes[n] for n in replicas}) == min(factor, len(sizes))
    leaders = Counter(replicas[0] for replicas in placed)
    least = min(leaders[n] for n in nodes)
    assert max(leaders.values()) - least <= 1, "leaders differ by at most one"
