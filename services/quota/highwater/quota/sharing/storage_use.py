"""Which instances are at their storage limits.

An instance's use is the sum over its partitions' leaders, so each record counts once, however many
replicas it has. It closes at its limit and opens again below 98 % of it, or as soon as the limit is
raised above the use.

Leaders move, and nodes report at different moments: a partition may be counted twice, or by nobody.
So the sum counts only while every node reports as many leaders as the image gives it. Meanwhile the
instance stays as it is, and nodes count by themselves what they append.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.limits import Limits
from highwater.quota.core.usage import InstanceUsage, NodeUsage

OPENS_BELOW_PERCENT: Final = 98
"""Of the limit. An instance that opened at once would close again with the next batch, and clients would
see errors and successes in turn."""

UNSETTLED_TICKS_MAX: Final = 5
"""After that the sum counts anyway: a partition may be offline for long."""


class _Stored:
    """One instance with a storage limit."""

    __slots__ = ("closed", "different", "limit", "nodes", "total", "unsettled_ms")

    def __init__(self, limit: int, leaders: Mapping[NodeId, int], now_ms: int) -> None:
        self.limit = limit
        self.nodes: dict[NodeId, tuple[int, int]] = {}
        """(bytes, leader partitions) as nodes report them."""
        self.total = 0
        self.different = len(leaders)
        """Nodes whose number of leaders is not the image's, and one if partitions have no leader."""
        self.unsettled_ms = now_ms
        """Since when some are different."""
        self.closed = False


class StorageUse:
    """See the module. Has the view of the whole cluster; lives as long as the ledger."""

    def __init__(self, tick_ms: int) -> None:
        self._grace_ms = UNSETTLED_TICKS_MAX * tick_ms
        self._instances: dict[InstanceId, _Stored] = {}
        self._leaders: Mapping[InstanceId, Mapping[NodeId, int]] = {}
        self._connected: dict[NodeId, NodeUsage] = {}
        """The last report of each node that has a stream."""

    def __iter__(self) -> Iterator[InstanceId]:
        """The instances that are at their limits."""
        return (instance for instance, stored in self._instances.items() if stored.closed)

    def set_limits(self, limits: Limits, now_ms: int) -> None:
        """Takes limits and leaders. A limit that was changed is compared with the use at once."""
        self._leaders = limits.leaders
        before, self._instances = self._instances, {}
        for instance, state in limits.instances.items():
            if state.storage_bytes is None:
                continue
            leaders = limits.leaders[instance]
            stored = before.get(instance)
            if stored is None:
                stored = _Stored(state.storage_bytes, leaders, now_ms)
                for node, usage in self._connected.items():
                    if (one := usage.instances.get(instance)) is not None:
                        stored.nodes[node] = one.stored, one.leader_partitions
                        stored.total += one.stored
            self._instances[instance] = stored
            was_settled = not stored.different
            for node in [one for one in stored.nodes if one not in self._connected]:
                if node not in leaders:  # Others lead in its place, and report their bytes.
                    stored.total -= stored.nodes.pop(node)[0]
            stored.different = sum(
                stored.nodes.get(node, (0, 0))[1] != leaders.get(node, 0)
                for node in {*leaders, *stored.nodes}
            ) + (instance in limits.leaderless)
            if was_settled and stored.different:
                stored.unsettled_ms = now_ms
            if stored.limit != state.storage_bytes or instance not in before:
                stored.limit = state.storage_bytes
                if self._counts(stored, now_ms):
                    stored.closed = stored.total >= stored.limit

    def report(self, usage: NodeUsage, now_ms: int) -> bool:
        """Takes a node's bytes; True if an instance closes or opens by that."""
        node = usage.node_id
        is_new = node not in self._connected
        self._connected[node] = usage
        changed = False
        for instance, stored in self._instances.items():
            one = usage.instances.get(instance)
            before = stored.closed
            if is_new and one is not None and one.storage_exhausted:
                # What the service before this one has found.
                stored.closed = True
            self._take(instance, stored, node, one, now_ms)
            changed = changed or stored.closed != before
        return changed

    def forget(self, node: NodeId) -> None:
        """A node's stream ended; its bytes count as long as it leads."""
        self._connected.pop(node, None)
        for instance, stored in self._instances.items():
            if node in stored.nodes and node not in self._leaders[instance]:
                nbytes, count = stored.nodes.pop(node)
                stored.total -= nbytes
                stored.different -= count != 0

    def exhausted(self, instance: InstanceId) -> bool:
        """True while produce is to be refused."""
        stored = self._instances.get(instance)
        return stored is not None and stored.closed

    def left(self, instance: InstanceId, now_ms: int) -> int | None:
        """Bytes below the limit; None if it has none, or the use is not known now."""
        stored = self._instances.get(instance)
        if stored is None or not self._counts(stored, now_ms):
            return None
        return max(0, stored.limit - stored.total)

    def total(self, instance: InstanceId) -> int:
        """Bytes that the instance stores, as far as nodes have told."""
        stored = self._instances.get(instance)
        return 0 if stored is None else stored.total

    def _take(
        self,
        instance: InstanceId,
        stored: _Stored,
        node: NodeId,
        usage: InstanceUsage | None,
        now_ms: int,
    ) -> None:
        leads = self._leaders[instance].get(node, 0)
        old_bytes, old_count = stored.nodes.get(node, (0, 0))
        nbytes, count = (0, 0) if usage is None else (usage.stored, usage.leader_partitions)
        was_settled = not stored.different
        stored.total += nbytes - old_bytes
        stored.different += (count != leads) - (old_count != leads)
        if count or nbytes:
            stored.nodes[node] = nbytes, count
        else:
            stored.nodes.pop(node, None)
        if was_settled and stored.different:
            stored.unsettled_ms = now_ms
        if not self._counts(stored, now_ms):
            return
        if stored.closed:
            stored.closed = stored.total >= stored.limit * OPENS_BELOW_PERCENT // 100
        else:
            stored.closed = stored.total >= stored.limit

    def _counts(self, stored: _Stored, now_ms: int) -> bool:
        return not stored.different or now_ms >= stored.unsettled_ms + self._grace_ms
