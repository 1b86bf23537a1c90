"""Where new replicas go: random start, shifted replicas, alternating racks.

Kafka's `AdminUtils` algorithm. First replicas walk round the nodes from a random start, so that
many small topics do not pile up on the lowest ids. The other replicas are placed at a shift from
the first, which grows with every walk round all nodes, so that two nodes do not share all their
partitions. Nodes are arranged with racks alternating. A replica skips racks that already have one,
as long as another rack has none. With one rack, or one node per rack, this is the plain algorithm.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from highwater.model.ids import NodeId

RandomBelow = Callable[[int], int]
"""A uniform integer in [0, n); n is at least 1."""


def alternate_racks(racks: Mapping[NodeId, str]) -> list[NodeId]:
    """Nodes in the order rack A's first, rack B's first, ..., rack A's second, ..."""
    by_rack: dict[str, list[NodeId]] = {}
    for node in sorted(racks):
        by_rack.setdefault(racks[node], []).append(node)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max((len(queue) for queue in queues), default=0)
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]


def place_replicas(
    racks: Mapping[NodeId, str],
    *,
    partitions: int,
    replication_factor: int,
    random_below: RandomBelow,
    first_partition: int = 0,
    start: int | None = None,
) -> list[tuple[NodeId, ...]]:
    """Replicas of the partitions `first_partition`, ..., the preferred leader first.

    `racks` maps the nodes to use to their racks. `start` fixes the start of the walk, so that
    partitions added to a topic continue its walk. The caller has checked that
    1 <= replication_factor <= len(racks).
    """
    assert 1 <= replication_factor <= len(racks)
    nodes = alternate_racks(racks)
    first_index = random_below(len(nodes)) if start is None else start % len(nodes)
    shift = random_below(len(nodes)) if start is None else first_index
    result = []
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % len(nodes) == 0:
            shift += 1
        first = (number + first_index) % len(nodes)
        result.append(_replicas(nodes, racks, first, shift, replication_factor))
    return result


def walk_start(racks: Mapping[NodeId, str], first_replica: NodeId) -> int | None:
    """The start of a topic's walk, from partition 0's first replica; None if that node is gone."""
    nodes = alternate_racks(racks)
    return nodes.index(first_replica) if first_replica in racks else None


def _replicas(
    nodes: Sequence[NodeId], racks: Mapping[NodeId, str], first: int, shift: int, factor: int
) -> tuple[NodeId, ...]:
    rack_count = len(set(racks.values()))
    chosen = [nodes[first]]
    used_racks = {racks[nodes[first]]}
    for node in _others(nodes, first, shift * rack_count):
        if len(chosen) == factor:
            break
        if racks[node] in used_racks and len(used_racks) < rack_count:
            continue
        if node not in chosen:
            chosen.append(node)
            used_racks.add(racks[node])
    assert len(chosen) == factor
    return tuple(chosen)


def _others(nodes: Sequence[NodeId], first: int, shift: int) -> Iterable[NodeId]:
    """The other nodes from the shift on, in two rounds: the first may find that racks are full."""
    others = len(nodes) - 1
    for step in range(2 * others):
        yield nodes[(first + 1 + (shift + step) % others) % len(nodes)]
