"""The one owner of limits, reports and allocations.

Driven by events with the time as an argument; no I/O. A restart needs no recovery: limits come from
the controller's watch, usage and the shares in effect from the nodes' reports.

Several quota services may run. Each divides only the shares of the nodes that report to it, and leaves
the others their static ones, so no election is needed for the sum to stay within the limit (decision
191). Nodes prefer the same one, because only a service that hears all nodes can divide all of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.model.errors import StaleNodeEpochError
from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.allocation import Allocation, NodeAllocations, Share
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.port import Demand, Policy, Sharing
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.usage import NodeUsage
from highwater.quota.sharing.grants import LEASE_TICKS, Grants, Rates
from highwater.quota.sharing.group_use import GroupUse
from highwater.quota.sharing.readers import Readers
from highwater.quota.sharing.storage_use import StorageUse

_NO_SHARE: Final = Share(rate=0, floor=0)


class Overcommit(NamedTuple):
    """The sum of the shares of one instance and direction, as a ratio to its limit."""

    instance: InstanceId
    direction: str
    ratio: float


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
        self._streams: dict[NodeId, int] = {}
        self._grants = Grants(tick_ms)
        self._readers = Readers(tick_ms)
        self.storage = StorageUse(tick_ms)
        self.groups = GroupUse(tick_ms)
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
        self._readers_changed()
        self.storage.set_limits(limits, now_ms)
        self.groups.set_partitions(limits.group_partitions, now_ms)
        self._shared_until_ms = now_ms
        return True

    def report(self, usage: NodeUsage, now_ms: int, stream: int = 0) -> bool:
        """Takes a node's tick; True if other nodes should get their allocations now.

        `stream` tells the node's streams apart. Raises StaleNodeEpochError if a newer incarnation
        reports.
        """
        node = usage.node_id
        last = self._usage.get(node)
        if last is not None and usage.node_epoch < last.node_epoch:
            raise StaleNodeEpochError(
                f"node {node} reports as epoch {usage.node_epoch}, "
                f"but epoch {last.node_epoch} has reported"
            )
        is_new = last is None or usage.node_epoch > last.node_epoch
        if is_new or self._streams.get(node) != stream:
            self._streams[node] = stream
            self._grants.connected(node, _in_effect(usage), now_ms)
        else:
            self._grants.applied(node, usage.applied_generation)
        self._usage[node] = usage
        if self._readers.report(usage, self._limits.instances, now_ms):
            self._readers_changed()
            self._shared_until_ms = now_ms
        self.groups.report(usage, now_ms)
        storage_changed = self.storage.report(usage, now_ms)
        return self._refresh(now_ms) or storage_changed

    def forget(self, node_id: NodeId, stream: int, now_ms: int) -> None:
        """Forgets the usage of a node whose stream ended, unless it has another one. What it may be
        using stays reserved until it has gone to its static share, or leads nothing.
        """
        if self._streams.get(node_id) == stream and node_id in self._usage:
            del self._usage[node_id], self._streams[node_id]
            self._grants.lost(node_id, now_ms)
            self.storage.forget(node_id)
            self.groups.forget(node_id, now_ms)

    def allocations_for(self, node_id: NodeId, now_ms: int) -> NodeAllocations:
        """The allocations of a node that reports: decreases at once, increases as far as others
        have given up their shares.
        """
        assert node_id in self._usage
        self._refresh(now_ms)
        self._grants.settle(now_ms)
        allocations = tuple(
            self._granted(node_id, instance, shared, now_ms)
            for instance, shared in self._shared.items()
        )
        self._generation += 1
        rates = {one.instance: _rates(one.produce, one.consume) for one in allocations}
        self._grants.sent(node_id, self._generation, rates, now_ms)
        return NodeAllocations(
            generation=self._generation,
            allocations=allocations,
            expires_in_ms=LEASE_TICKS * self._tick_ms,
        )

    def overcommits(self) -> list[Overcommit]:
        """How much of each limit is given out; above 1 only by a policy that does so on purpose."""
        found = []
        for instance, state in self._limits.instances.items():
            taken = self._grants.taken(instance)
            for direction, rate, limit in (
                ("produce", taken.produce, state.produce_bytes_per_second),
                ("consume", taken.consume, state.consume_bytes_per_second),
            ):
                if limit:
                    found.append(Overcommit(instance, direction, rate / limit))
        return found

    def _granted(
        self, node: NodeId, instance: InstanceId, shared: "_Shared", now_ms: int
    ) -> Allocation:
        bound = self._grants.bound(node, instance)
        others = self._grants.taken_by_others(node, instance)
        complete = self._grants.complete(instance, now_ms)
        state = self._limits.instances[instance]
        return Allocation(
            instance=instance,
            produce=_grant(shared.produce, node, bound.produce, others.produce, complete),
            consume=_grant(shared.consume, node, bound.consume, others.consume, complete),
            storage_exhausted=self.storage.exhausted(instance),
            storage_limit=state.storage_bytes,
            storage_left=self.storage.left(instance, now_ms),
            groups=None if state.groups_max is None else self.groups.total(instance, now_ms),
        )

    def _readers_changed(self) -> None:
        """Whoever reads may be using its share, even if its stream is lost and it leads nothing."""
        self._grants.set_leaders(
            {
                instance: self._readers.beside(instance, leaders)
                for instance, leaders in self._limits.leaders.items()
            }
        )

    def _refresh(self, now_ms: int) -> bool:
        """Computes all shares again, once a tick; True if any is another one."""
        if now_ms < self._shared_until_ms:
            return False
        if self._readers.forget_resting(now_ms):
            self._readers_changed()
        self._shared_until_ms = now_ms + self._tick_ms
        before = self._shared
        self._shared = {
            instance: _Shared(
                produce=self._share(
                    instance,
                    state.produce_bytes_per_second,
                    self._limits.leaders[instance],
                    lambda usage, one: usage.produce_demand(one),
                    now_ms,
                ),
                consume=self._share(
                    instance,
                    state.consume_bytes_per_second,
                    self._readers.beside(instance, self._limits.leaders[instance]),
                    lambda usage, one: usage.consume_demand(one),
                    now_ms,
                ),
            )
            for instance, state in self._limits.instances.items()
        }
        return self._shared != before

    def _share(
        self,
        instance: InstanceId,
        limit: int | None,
        weights: Mapping[NodeId, int],
        demand_of: Callable[[NodeUsage, InstanceId], Demand | None],
        now_ms: int,
    ) -> "_Division | None":
        if limit is None:
            return None
        demands = {node: demand_of(usage, instance) for node, usage in self._usage.items()}
        sharing = Sharing(
            limit=limit,
            leaders=weights,
            demands={node: demand for node, demand in demands.items() if demand is not None},
        )
        rates, floors = self._policy.share(sharing), self._floors.share(sharing)
        return _Division(
            shares={
                node: Share(
                    rate=rate,
                    floor=floors[node] if self._readers.has_floor(instance, node, now_ms) else 0,
                )
                for node, rate in rates.items()
            },
            # A policy may give out more than the limit; then that much is meant.
            total=max(limit, sum(rates.values())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Division:
    """One limit divided among nodes."""

    shares: Mapping[NodeId, Share]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """One instance's limits divided among nodes; None is unlimited."""

    produce: _Division | None
    consume: _Division | None


def _grant(
    division: _Division | None, node: NodeId, bound: int, others: int, complete: bool
) -> Share | None:
    """The node's share now; `bound` is what it may be using, `others` what all others may."""
    if division is None:
        return None
    share = division.shares.get(node, _NO_SHARE)
    if share.rate <= bound:
        return share
    rate = min(share.rate, max(bound, division.total - others))
    if not complete:
        rate = min(rate, max(bound, share.floor))
    return Share(rate=rate, floor=share.floor)


def _rates(produce: Share | None, consume: Share | None) -> Rates:
    return Rates(
        0 if produce is None else produce.rate,
        0 if consume is None else consume.rate,
    )


def _in_effect(usage: NodeUsage) -> dict[InstanceId, Rates]:
    return {
        instance: Rates(one.produce_rate or 0, one.consume_rate or 0)
        for instance, one in usage.instances.items()
    }
