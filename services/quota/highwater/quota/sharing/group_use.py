"""How many groups each instance has in the whole cluster.

Nodes count the groups in the partitions of coordinators that they lead and have loaded, and compare the
sum with the limit themselves. While a partition moves or is loaded, nobody counts its groups, or two do;
so the sum is told only while nodes have as many partitions as there are.
"""

from collections import Counter
from typing import Final

from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.usage import NodeUsage

UNSETTLED_TICKS_MAX: Final = 5
"""After that the sum is told anyway: a partition may be offline for long."""


class GroupUse:
    """Has the view of the whole cluster; lives as long as the ledger."""

    def __init__(self, tick_ms: int) -> None:
        self._grace_ms = UNSETTLED_TICKS_MAX * tick_ms
        self._partitions = 0
        self._shards = 0
        """Partitions that nodes have loaded."""
        self._reports: dict[NodeId, NodeUsage] = {}
        """The last one of each node that has a stream."""
        self._totals: Counter[InstanceId] = Counter()
        self._unsettled_ms: int | None = None
        """Since when nodes have more or fewer partitions than there are; None if they have not."""

    def set_partitions(self, partitions: int, now_ms: int) -> None:
        """Takes how many partitions the topics of groups have together."""
        self._partitions = partitions
        self._settle(now_ms)

    def report(self, usage: NodeUsage, now_ms: int) -> None:
        """Takes a node's numbers in place of its last ones."""
        self._drop(usage.node_id)
        self._reports[usage.node_id] = usage
        self._shards += usage.group_shards
        for instance, one in usage.instances.items():
            if one.groups:
                self._totals[instance] += one.groups
        self._settle(now_ms)

    def forget(self, node: NodeId, now_ms: int) -> None:
        """A node's stream ended: it has stopped, or another service hears it."""
        self._drop(node)
        self._settle(now_ms)

    def total(self, instance: InstanceId, now_ms: int) -> int | None:
        """Groups of the instance; None while they are not known."""
        since_ms = self._unsettled_ms
        if since_ms is not None and now_ms < since_ms + self._grace_ms:
            return None
        return self._totals[instance]

    def _drop(self, node: NodeId) -> None:
        usage = self._reports.pop(node, None)
        if usage is None:
            return
        self._shards -= usage.group_shards
        for instance, one in usage.instances.items():
            if one.groups:
                self._totals[instance] -= one.groups
                if not self._totals[instance]:
                    del self._totals[instance]

    def _settle(self, now_ms: int) -> None:
        if self._shards == self._partitions:
            self._unsettled_ms = None
        elif self._unsettled_ms is None:
            self._unsettled_ms = now_ms
