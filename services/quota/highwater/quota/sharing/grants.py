"""What each node may be using: the rates that it has, and those that were sent and may have arrived.

Shares move between nodes. If one got its larger share before another gave up its own, the limit would
be exceeded for a moment, so decreases are sent at once, and an increase only takes what is free: the
limit without what the others may be using. A node gives up its old share when a report says that it
goes by the new one, or a tick after that was sent on a stream that still lives.

A node that is not heard of keeps what it has for the time of a lease, and then goes to its static share
by itself.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import InstanceId, NodeId
from highwater.model.token_bucket import DECAY_MS

LEASE_TICKS: Final = 3
"""Ticks that a node may miss before its shares decay."""

SENT_MAX: Final = 8
"""Rates of one node that are in flight; beyond that the oldest two count as one, the larger."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Produce and consume, in bytes per second; 0 also for a direction without a limit."""

    produce: int = 0
    consume: int = 0

    def largest(self, other: "Rates") -> "Rates":
        """The larger one of each direction."""
        return Rates(max(self.produce, other.produce), max(self.consume, other.consume))


NOTHING: Final = Rates()


@dataclass(slots=True)
class _Sent:
    generation: int
    at_ms: int
    rates: Mapping[InstanceId, Rates]


class _Node:
    __slots__ = ("bounds", "lost_ms", "sent")

    def __init__(self, in_effect: Mapping[InstanceId, Rates], now_ms: int) -> None:
        self.sent = deque([_Sent(0, now_ms, in_effect)])
        """The first is in effect, the others may be."""
        self.bounds: dict[InstanceId, Rates] = {}
        self.lost_ms: int | None = None


class Grants:
    """See the module. Has the view of the whole cluster; lives as long as the ledger."""

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self.hold_ms: Final = LEASE_TICKS * tick_ms + DECAY_MS
        """From the last news to the static share, at a node that hears nothing."""
        self._nodes: dict[NodeId, _Node] = {}
        self._taken: dict[InstanceId, Rates] = {}
        self._leaders: Mapping[InstanceId, Mapping[NodeId, int]] = {}
        self._learning_until_ms = 0

    def set_leaders(self, leaders: Mapping[InstanceId, Mapping[NodeId, int]]) -> None:
        """Takes who leads; a lost node that leads no more has been fenced, and uses nothing."""
        self._leaders = leaders
        for node_id, node in self._nodes.items():
            if node.lost_ms is not None:
                self._bound_again(node_id, node)

    def connected(
        self, node_id: NodeId, in_effect: Mapping[InstanceId, Rates], now_ms: int
    ) -> None:
        """A node's stream began; it says what it goes by."""
        if all(node.lost_ms is not None for node in self._nodes.values()):
            # Other nodes will come too, and have shares of a service that is gone.
            self._learning_until_ms = now_ms + self.hold_ms
        self._remove(node_id)
        node = self._nodes[node_id] = _Node(in_effect, now_ms)
        self._bound_again(node_id, node)

    def applied(self, node_id: NodeId, generation: int) -> None:
        """A report says which allocations its node goes by."""
        self._advance(node_id, lambda sent: sent.generation <= generation)

    def sent(
        self, node_id: NodeId, generation: int, rates: Mapping[InstanceId, Rates], now_ms: int
    ) -> None:
        """Allocations go to a connected node."""
        node = self._nodes[node_id]
        if node.sent[-1].rates == rates:
            return
        node.sent.append(_Sent(generation, now_ms, rates))
        if len(node.sent) > SENT_MAX:
            first, second = node.sent.popleft(), node.sent.popleft()
            both = {
                one: first.rates.get(one, NOTHING).largest(second.rates.get(one, NOTHING))
                for one in {*first.rates, *second.rates}
            }
            node.sent.appendleft(_Sent(second.generation, second.at_ms, both))
        self._bound_again(node_id, node)

    def lost(self, node_id: NodeId, now_ms: int) -> None:
        """A node's stream ended; what was sent may or may not have arrived."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.lost_ms = now_ms
            self._bound_again(node_id, node)

    def settle(self, now_ms: int) -> None:
        """Lets time pass. O(nodes) if nothing is due."""
        for node_id, node in list(self._nodes.items()):
            if node.lost_ms is None:
                self._advance(node_id, lambda sent: sent.at_ms + self._tick_ms <= now_ms)
            elif node.lost_ms + self.hold_ms <= now_ms:
                self._remove(node_id)

    def bound(self, node_id: NodeId, instance: InstanceId) -> Rates:
        """The most that the node may be using."""
        node = self._nodes.get(node_id)
        return NOTHING if node is None else node.bounds.get(instance, NOTHING)

    def taken_by_others(self, node_id: NodeId, instance: InstanceId) -> Rates:
        """The most that all other nodes may be using together."""
        taken, own = self.taken(instance), self.bound(node_id, instance)
        return Rates(taken.produce - own.produce, taken.consume - own.consume)

    def taken(self, instance: InstanceId) -> Rates:
        """The most that all nodes may be using together."""
        return self._taken.get(instance, NOTHING)

    def complete(self, instance: InstanceId, now_ms: int) -> bool:
        """False while leaders of the instance may have shares that nobody has told."""
        if now_ms >= self._learning_until_ms:
            return True
        return all(node in self._nodes for node in self._leaders.get(instance, ()))

    def _advance(self, node_id: NodeId, is_in_effect: Callable[[_Sent], bool]) -> None:
        node = self._nodes[node_id]
        before = len(node.sent)
        while len(node.sent) > 1 and is_in_effect(node.sent[1]):
            node.sent.popleft()
        if len(node.sent) < before:
            self._bound_again(node_id, node)

    def _bound_again(self, node_id: NodeId, node: _Node) -> None:
        bounds: dict[InstanceId, Rates] = {}
        for sent in node.sent:
            for instance, rates in sent.rates.items():
                if node.lost_ms is None or node_id in self._leaders.get(instance, ()):
                    bounds[instance] = bounds.get(instance, NOTHING).largest(rates)
        self._replace(node.bounds, bounds)
        node.bounds = bounds

    def _remove(self, node_id: NodeId) -> None:
        node = self._nodes.pop(node_id, None)
        if node is not None:
            self._replace(node.bounds, {})

    def _replace(self, old: Mapping[InstanceId, Rates], new: Mapping[InstanceId, Rates]) -> None:
        taken = self._taken
        for instance in {*old, *new}:
            less, more = old.get(instance, NOTHING), new.get(instance, NOTHING)
            present = taken.get(instance, NOTHING)
            total = Rates(
                present.produce - less.produce + more.produce,
                present.consume - less.consume + more.consume,
            )
            assert total.produce >= 0
            assert total.consume >= 0
            if total == NOTHING:
                taken.pop(instance, None)
            else:
                taken[instance] = total
