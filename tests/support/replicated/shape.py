"""How many processes of each kind a replicated cluster has, and how they are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.hop.settings import HopTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The numbers of processes, and settings that differ from the defaults."""

    nodes: int = 3
    combined: int = 0
    """How many of the nodes, from 1 on, have a gateway in their process; all these share a block."""
    controllers: int = 2
    controllers_in_nodes: bool = False
    """Controller n is a third role of node n's process; every node has a gateway then."""
    gateways: int = 1
    """Gateways without a node."""
    room_in_front: int = 0
    """Free ports in front of the first gateway's block, for one that a test starts by itself."""
    balancer: bool = False
    """All gateways have the same ports, each on an address of its own, behind a balancer."""
    etcd_members: int = 3
    hop: HopTransport = HopTransport.LOOP
    """Of gateways and nodes, unless `settings` say otherwise for some."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By section ("controller"), or by process ("node-2"), which wins: name -> value."""
