"""The one owner of limits, reports and allocations.

Driven by events with the time as an argument; no I/O. A restart needs no recovery: limits come from
the controller's watch, usage from the next reports, and nodes keep their leases meanwhile. Several
quota services compute the same static shares.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.errors import StaleNodeEpochError
from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.allocation import Allocation, NodeAllocations, Share, decreases_only
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.port import Demand, Policy, Sharing
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.usage import NodeUsage

LEASE_TICKS: Final = 3
"""Ticks that a node may miss before its shares decay."""

_NO_SHARE: Final = Share(rate=0, floor=0)


class Ledger:
    """Has the view of the whole cluster; lives as long as the service. Used on one loop."""

    def __init__(self, policy: Policy, *, tick_ms: int, wall_ms: int) -> None:
        """`wall_ms` starts the generations, so that they grow across restarts."""
        self._policy = policy
        self._floors = StaticPolicy()
        self._tick_ms = tick_ms
        self._generation = wall_ms
        self._limits = Limits()
        self.informed = False
        """Whether the limits are known. Before that nothing is sent: nodes would take instances that
        are not listed for unlimited, and would lose the shares that they have."""
        self._usage: dict[NodeId, NodeUsage] = {}
        self._sent: dict[NodeId, dict[InstanceId, Allocation]] = {}
        self._increases_from_ms = 0
        self._shared: dict[InstanceId, _Shared] = {}
        self._shared_until_ms = 0

    @property
    def limits(self) -> Limits:
        """The limits that are divided."""
        return self._limits

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Nodes that report."""
        return tuple(self._usage)

    def set_limits(self, limits: Limits, now_ms: int) -> bool:
        """Takes new limits or leaders; True if nodes need new allocations."""
        self.informed = True
        if limits == self._limits:
            return False
        self._limits = limits
        self._increases_from_ms = now_ms + self._tick_ms
        self._shared_until_ms = now_ms
        return True

    def report(self, usage: NodeUsage) -> None:
        """Takes a node's tick. Raises StaleNodeEpochError if a newer incarnation reports."""
        last = self._usage.get(usage.node_id)
        if last is not None and usage.node_epoch < last.node_epoch:
            raise StaleNodeEpochError(
                f"node {usage.node_id} reports as epoch {usage.node_epoch}, "
                f"but epoch {last.node_epoch} has reported"
            )
        if last is not None and usage.node_epoch > last.node_epoch:
            self._sent.pop(usage.node_id, None)
        self._usage[usage.node_id] = usage

    def forget(self, node_id: NodeId, node_epoch: int) -> None:
        """Forgets a node whose stream ended: its leaders and their bytes move to other nodes."""
        usage = self._usage.get(node_id)
        if usage is not None and usage.node_epoch == node_epoch:
            del self._usage[node_id]
            self._sent.pop(node_id, None)

    def allocations_for(self, node_id: NodeId, now_ms: int) -> NodeAllocations:
        """A node's allocations now: with decreases at once, increases a tick after a change."""
        self._refresh(now_ms)
        wanted = {
            instance: shared.on(node_id, instance) for instance, shared in self._shared.items()
        }
        present = self._sent.get(node_id)
        if present is not None and now_ms < self._increases_from_ms:
            wanted = decreases_only(present, wanted)
        self._sent[node_id] = wanted
        self._generation += 1
        return NodeAllocations(
            generation=self._generation,
            allocations=tuple(wanted.values()),
            expires_in_ms=LEASE_TICKS * self._tick_ms,
        )

    def stored_bytes(self, instance: InstanceId) -> int:
        """Bytes of the instance at its leaders; other replicas do not count."""
        return sum(
            usage.instances[instance].stored
            for usage in self._usage.values()
            if instance in usage.instances
        )

    def storage_exhausted(self, instance: InstanceId) -> bool:
        """True while the instance has reached its storage limit."""
        state = self._limits.instances.get(instance)
        if state is None or state.storage_bytes is None:
            return False
        return self.stored_bytes(instance) >= state.storage_bytes

    def overcommit_ratio(self) -> float:
        """The largest ratio of an instance's sent shares to its limit; at most 1 if all is well."""
        greatest = 0.0
        for instance, state in self._limits.instances.items():
            sent = [told[instance] for told in self._sent.values() if instance in told]
            produce = sum(a.produce.rate for a in sent if a.produce is not None)
            consume = sum(a.consume.rate for a in sent if a.consume is not None)
            if state.produce_bytes_per_second:
                greatest = max(greatest, produce / state.produce_bytes_per_second)
            if state.consume_bytes_per_second:
                greatest = max(greatest, consume / state.consume_bytes_per_second)
        return greatest

    def _refresh(self, now_ms: int) -> None:
        """Computes all shares again: once a tick, not once for each report."""
        if now_ms < self._shared_until_ms:
            return
        self._shared_until_ms = now_ms + self._tick_ms
        self._shared = {
            instance: _Shared(
                produce=self._share(
                    instance,
                    state.produce_bytes_per_second,
                    lambda usage, one: usage.produce_demand(one),
                ),
                consume=self._share(
                    instance,
                    state.consume_bytes_per_second,
                    lambda usage, one: usage.consume_demand(one),
                ),
                storage_exhausted=self.storage_exhausted(instance),
            )
            for instance, state in self._limits.instances.items()
        }

    def _share(
        self,
        instance: InstanceId,
        limit: int | None,
        demand_of: Callable[[NodeUsage, InstanceId], Demand | None],
    ) -> dict[NodeId, Share] | None:
        if limit is None:
            return None
        demands = {node: demand_of(usage, instance) for node, usage in self._usage.items()}
        sharing = Sharing(
            limit=limit,
            leaders=self._limits.leaders[instance],
            demands={node: demand for node, demand in demands.items() if demand is not None},
        )
        rates, floors = self._policy.share(sharing), self._floors.share(sharing)
        return {node: Share(rate=rate, floor=floors[node]) for node, rate in rates.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """One instance's limits divided among nodes; None is unlimited."""

    produce: Mapping[NodeId, Share] | None
    consume: Mapping[NodeId, Share] | None
    storage_exhausted: bool

    def on(self, node: NodeId, instance: InstanceId) -> Allocation:
        """The node's allocation; a node that leads nothing gets no share."""
        return Allocation(
            instance=instance,
            produce=None if self.produce is None else self.produce.get(node, _NO_SHARE),
            consume=None if self.consume is None else self.consume.get(node, _NO_SHARE),
            storage_exhausted=self.storage_exhausted,
        )
