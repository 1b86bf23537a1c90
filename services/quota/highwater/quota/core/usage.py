"""The usage that nodes report once a second."""

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.policies.port import Demand

_MS_PER_S = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUsage:
    """One instance on one node, in bytes of one tick."""

    produced: int = 0
    consumed: int = 0
    held_produce: int = 0
    held_consume: int = 0
    leader_partitions: int = 0
    stored: int = 0
    """Bytes in the logs of the leaders there, at the end of the tick."""
    produce_rate: int | None = None
    """The share in effect there, in bytes per second; None is unlimited."""
    consume_rate: int | None = None
    storage_exhausted: bool = False
    """Whether the node refuses produce because of the storage limit."""
    groups: int = 0
    """Groups that the node coordinates; counted only for instances with a limit of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """One node's last tick."""

    node_id: NodeId
    node_epoch: int
    tick_ms: int
    instances: Mapping[InstanceId, InstanceUsage]
    applied_generation: int = 0
    """The allocations that the node goes by; 0 if its stream has brought none."""
    group_shards: int = 0
    """Partitions of the topics of groups that the node has loaded, and counted."""

    def produce_demand(self, instance: InstanceId) -> Demand | None:
        """Produce as a rate; None if the node led nothing of the instance, so that it says nothing."""
        usage = self.instances.get(instance)
        if usage is None or not usage.leader_partitions:
            return None
        return self._rates(usage.produced, usage.held_produce)

    def consume_demand(self, instance: InstanceId) -> Demand | None:
        """Consume as a rate; None as for produce, but for who serves reads of followers."""
        usage = self.instances.get(instance)
        if usage is None or not (usage.leader_partitions or usage.consumed or usage.held_consume):
            return None
        return self._rates(usage.consumed, usage.held_consume)

    def _rates(self, served: int, held: int) -> Demand:
        per_s = _MS_PER_S / self.tick_ms
        return Demand(served=served * per_s, held=held * per_s)
