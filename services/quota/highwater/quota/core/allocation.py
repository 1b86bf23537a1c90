"""Allocations: a node's shares of an instance's limits, and how they change safely."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocations:
    """All allocations of one node; an instance that is not listed is unlimited."""

    generation: int
    """Grows with every allocation, also across restarts of the quota service."""
    allocations: tuple[Allocation, ...]
    expires_in_ms: int


def decreases_only(
    present: Mapping[InstanceId, Allocation], wanted: Mapping[InstanceId, Allocation]
) -> dict[InstanceId, Allocation]:
    """`wanted`, but with no share above the `present` one.

    When leaders move, shares move with them. If one node got its larger share before another gave up
    its own, the limit would be exceeded for a moment, so decreases are sent at once and increases a
    tick later. An instance that is new to the node is unlimited there, so any share is a decrease;
    storage limits are not divided and change at once.
    """
    return {
        instance: _lower(present.get(instance), allocation)
        for instance, allocation in wanted.items()
    }


def _lower(present: Allocation | None, wanted: Allocation) -> Allocation:
    if present is None:
        return wanted
    return replace(
        wanted,
        produce=_lower_share(present.produce, wanted.produce),
        consume=_lower_share(present.consume, wanted.consume),
    )


def _lower_share(present: Share | None, wanted: Share | None) -> Share | None:
    if present is None or wanted is None:
        # A limit that is set or removed is not a share that moves between nodes.
        return wanted
    return Share(rate=min(present.rate, wanted.rate), floor=min(present.floor, wanted.floor))
