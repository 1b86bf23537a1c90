"""Allocations: a node's shares of an instance's limits."""

from dataclasses import dataclass

from highwater.model.ids import InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A node's part of one limit, in bytes per second."""

    rate: int
    floor: int
    """The static share, to which the rate decays when the node hears nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One instance on one node; None is unlimited."""

    instance: InstanceId
    produce: Share | None
    consume: Share | None
    storage_exhausted: bool = False
    """At its storage limit: produce is refused, consume goes on."""
    storage_limit: int | None = None
    """Bytes of the whole instance; None is unlimited."""
    storage_left: int | None = None
    """Bytes that the whole instance may still store; None if that is not known now, and the node
    goes on counting by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocations:
    """All allocations of one node; an instance that is not listed is unlimited."""

    generation: int
    """Grows with every allocation, also across restarts of the quota service."""
    allocations: tuple[Allocation, ...]
    expires_in_ms: int
