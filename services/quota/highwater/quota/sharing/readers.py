"""Nodes that serve reads of an instance although they lead none of its partitions (KIP-392).

Only their reports tell of them: they have served records of the instance, or made somebody wait for
some. They count for the consume limit as if they led as much as a leading node does on average.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.usage import NodeUsage

REST_TICKS: Final = 60
"""Without a read, after which a node counts no more. What it keeps until then others do not have to ask
for when its clients begin again."""
FLOOR_TICKS: Final = 2
"""After which it has a static share: by then all others have been told smaller ones. If the quota service
died between, static shares would add up to more than the limit."""


class Readers:
    """See the module. Lives as long as the ledger."""

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._seen: dict[InstanceId, dict[NodeId, tuple[int, int]]] = {}
        """By node, when it read for the first and for the last time."""

    def report(self, usage: NodeUsage, limited: Iterable[InstanceId], now_ms: int) -> bool:
        """Takes a node's tick; True if it reads what it did not read before."""
        news = False
        for instance in limited:
            one = usage.instances.get(instance)
            if one is None or one.leader_partitions or not (one.consumed or one.held_consume):
                continue
            nodes = self._seen.setdefault(instance, {})
            first_ms, _ = nodes.get(usage.node_id, (now_ms, now_ms))
            news = news or usage.node_id not in nodes
            nodes[usage.node_id] = first_ms, now_ms
        return news

    def forget_resting(self, now_ms: int) -> bool:
        """Drops nodes that have not read for long; True if there were any."""
        since_ms = now_ms - REST_TICKS * self._tick_ms
        rested = False
        for instance, nodes in list(self._seen.items()):
            kept = {node: times for node, times in nodes.items() if times[1] > since_ms}
            rested = rested or len(kept) < len(nodes)
            if kept:
                self._seen[instance] = kept
            else:
                del self._seen[instance]
        return rested

    def beside(self, instance: InstanceId, leaders: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """The leaders of an instance and their partitions, and what its other readers count as."""
        nodes = self._seen.get(instance)
        if not nodes or not leaders:
            return leaders
        average = max(1, round(sum(leaders.values()) / len(leaders)))
        return dict.fromkeys(nodes, average) | dict(leaders)

    def has_floor(self, instance: InstanceId, node: NodeId, now_ms: int) -> bool:
        """False for a node that has read for so short a time that it has no static share yet."""
        times = self._seen.get(instance, {}).get(node)
        return times is None or times[0] + FLOOR_TICKS * self._tick_ms <= now_ms
