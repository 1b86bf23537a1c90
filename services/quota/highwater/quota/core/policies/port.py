"""The interface of policies, which divide one limit among nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from highwater.model.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One node's last tick, in bytes per second."""

    served: float = 0.0
    """Bytes per second that passed."""
    held: float = 0.0
    """Bytes per second that had to wait, or were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """One limit of one instance in one direction."""

    limit: int
    """Bytes per second over all nodes."""
    leaders: Mapping[NodeId, int]
    """Leader partitions of the instance by node; nodes without any are left out. For consume also nodes
    that serve reads and lead nothing, and what they count as."""
    demands: Mapping[NodeId, Demand] = field(default_factory=dict)
    """Each node's demand; without nodes that have not reported."""

    def __post_init__(self) -> None:
        assert self.limit >= 0
        assert all(count > 0 for count in self.leaders.values())


class Policy(Protocol):
    """A way to divide a limit. Pure: equal arguments give equal results."""

    name: str

    def share(self, sharing: Sharing) -> dict[NodeId, int]:
        """Bytes per second by node, for exactly the nodes of `sharing.leaders`."""
        ...
