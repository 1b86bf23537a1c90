"""The controllers and their followers as Kafka describes a quorum (KIP-595, KIP-836).

Controllers that stand for election are the voters; nodes and gateways with a session observe. Only
nodes have numbers. Controllers and gateways get one that is made from their name, so that it stays
the same when others come and go: controllers from CONTROLLER_IDS on, gateways from GATEWAY_IDS on.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.controller.core.liveness import Session
from highwater.model.ids import GatewayId, NodeId

CONTROLLER_IDS: Final = 1_000_000
GATEWAY_IDS: Final = 2_000_000
IDS: Final = 1_000_000
"""How many numbers controllers have, and gateways. Those of nodes are below all of them."""

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller that stands for election."""

    name: str
    address: str
    """host:port of its gRPC server, or what stands for it if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One process that has, or follows, the metadata. What is not known is UNKNOWN."""

    replica_id: int
    name: str = ""
    address: str = ""
    revision: int = UNKNOWN
    reported_ms: int = UNKNOWN
    """Since the Unix epoch, by the active controller's clock."""
    caught_up_ms: int = UNKNOWN
    """When it reported the newest revision of that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """What the active controller knows at one moment."""

    leader_id: int
    controller_epoch: int
    revision: int
    """Of the newest image."""
    voters: tuple[Replica, ...]
    """The leader first, the others by id."""
    observers: tuple[Replica, ...]
    """Nodes by id, then gateways by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment on both clocks, in ms."""

    monotonic_ms: int
    wall_ms: int

    def wall_of(self, monotonic_ms: int | None) -> int:
        """The wall clock's time of an earlier moment; UNKNOWN for None."""
        if monotonic_ms is None:
            return UNKNOWN
        return self.wall_ms - (self.monotonic_ms - monotonic_ms)


def describe_quorum(
    controllers: Sequence[Controller],
    nodes: Mapping[NodeId, Session],
    gateways: Mapping[GatewayId, Session],
    *,
    leader: str,
    controller_epoch: int,
    revision: int,
    now: Moment,
) -> Quorum:
    """`leader` is the name of one of the controllers; `revision` is that of its image.

    Standby controllers have that revision, too: they keep no copy, and all read the same store.
    """
    ids = replica_ids((one.name for one in controllers), CONTROLLER_IDS)
    gateway_ids = replica_ids(gateways, GATEWAY_IDS)
    leader_id = ids[leader]
    voters = [
        Replica(
            replica_id=ids[one.name],
            name=one.name,
            address=one.address,
            revision=revision,
            reported_ms=now.wall_ms if one.name == leader else UNKNOWN,
            caught_up_ms=now.wall_ms if one.name == leader else UNKNOWN,
        )
        for one in controllers
    ]
    voters.sort(key=lambda voter: (voter.replica_id != leader_id, voter.replica_id))
    observers = [_observer(node, "", session, now) for node, session in sorted(nodes.items())]
    observers += sorted(
        (_observer(gateway_ids[name], name, session, now) for name, session in gateways.items()),
        key=lambda observer: observer.replica_id,
    )
    return Quorum(
        leader_id=leader_id,
        controller_epoch=controller_epoch,
        revision=revision,
        voters=tuple(voters),
        observers=tuple(observers),
    )


def replica_ids(names: Iterable[str], first: int) -> dict[str, int]:
    """A number for each name, from `first` on. Where two hash to the same, the later one moves."""
    ids: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(set(names)):
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big") % IDS
        while number in taken:
            number = (number + 1) % IDS
        taken.add(number)
        ids[name] = first + number
    return ids


def _observer(replica_id: int, name: str, session: Session, now: Moment) -> Replica:
    """A session that was opened, but whose member has not reported, tells nothing."""
    return Replica(
        replica_id=replica_id,
        name=name,
        revision=UNKNOWN if session.reported_ms is None else session.applied_revision,
        reported_ms=now.wall_of(session.reported_ms),
        caught_up_ms=now.wall_of(session.caught_up_ms),
    )
