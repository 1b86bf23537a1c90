"""The ports of a supervised cluster's gateways: of each listener, a block for each gateway.

A block is a bootstrap port and one port for each node. The first gateway's blocks begin at the ports
that the settings say, and each further gateway's right behind those of the one before, so that
gateways on one host never have the same ports. Nodes that are their own gateways share one block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from highwater.embed.up.ports import check_ports, free_ports
from highwater.gateway.config import ListenerConfig, share_ports
from highwater.model.errors import UsageError
from highwater.model.listener_names import DEFAULT_LISTENER

PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class PortBlocks:
    """What every gateway listens on. Made before anything runs, and never changed."""

    gateways: Sequence[Mapping[str, ListenerConfig]]
    """Of each gateway its listeners by name, at the ports that it gets."""
    ports: frozenset[int]
    """All ports of all listeners; those of different hosts are not told apart."""
    chosen: frozenset[tuple[str, int]]
    """Host and port of those that nobody asked for, so that others would do as well."""


def lay_out(listeners: Mapping[str, ListenerConfig], *, nodes: int, gateways: int) -> PortBlocks:
    """Gives each gateway its blocks; port 0 of a listener means free ones.

    Raises UsageError, PortInUseError or BindError if there is no place for one, or if it is taken.
    """
    block = nodes + 1
    count = block * gateways
    found: dict[str, ListenerConfig] = {}
    taken: set[int] = set()
    chosen: set[tuple[str, int]] = set()
    # The ports that somebody chose come first, so that no free ones are taken from among them.
    for name, one in sorted(listeners.items(), key=lambda item: item[1].port == 0):
        port = one.port or free_ports(one.host, count, apart=taken)
        if max(port, one.advertised_port) + count - 1 > PORT_MAX:
            first = max(port, one.advertised_port)
            raise UsageError(f"{_what(name, nodes)} do not fit into the ports after {first}")
        found[name] = one.model_copy(update={"port": port})
        taken.update(range(port, port + count))
        if one.port == 0:
            chosen.update((one.host, number) for number in range(port, port + count))
    _check_apart(found, count)
    for one in found.values():
        check_ports(one.host, one.port, count)
    return PortBlocks(
        gateways=[
            {name: _moved(found[name], number * block) for name in listeners}
            for number in range(gateways)
        ],
        ports=frozenset(taken),
        chosen=frozenset(chosen),
    )


def gateway_overrides(
    overrides: Mapping[str, Any],
    given: Mapping[str, ListenerConfig],
    got: Mapping[str, ListenerConfig],
    *,
    shift: int = 0,
) -> dict[str, Any]:
    """The overrides of a gateway whose listeners are `got`, by those of all, which had `given`.

    Without `port` of the default listener, which follows from the flags. `shift` is the distance to the
    ports of the first gateway, and so that of the instances' ports.
    """
    moved: dict[str, Any] = {}
    default = got[DEFAULT_LISTENER]
    if shift:
        moved["instance_port_shift"] = shift + int(overrides.get("instance_port_shift", 0))
    if default.advertised_port != given[DEFAULT_LISTENER].advertised_port:
        moved["advertised_port"] = default.advertised_port
    further = {
        name: one.model_dump()
        for name, one in got.items()
        if name != DEFAULT_LISTENER and one != given[name]
    }
    if further:
        moved["listeners"] = further
    # `listeners.NAME.port` of `--set` would win over ours, which has what it says.
    kept = {name: value for name, value in overrides.items() if name.split(".")[0] not in moved}
    return kept | moved


def _moved(listener: ListenerConfig, by: int) -> ListenerConfig:
    """The same that many ports further on, also as clients reach it."""
    advertised = listener.advertised_port and listener.advertised_port + by
    return listener.model_copy(update={"port": listener.port + by, "advertised_port": advertised})


def _check_apart(listeners: Mapping[str, ListenerConfig], count: int) -> None:
    for (name, one), (other_name, other) in combinations(listeners.items(), 2):
        if share_ports(one.host, other.host) and abs(one.port - other.port) < count:
            raise UsageError(
                f"listeners {name} and {other_name} would have the same ports: each takes {count}, "
                f"from {one.port} and from {other.port}"
            )


def _what(name: str, nodes: int) -> str:
    what = f"{nodes} nodes"
    return what if name == DEFAULT_LISTENER else f"{what} of listener {name}"
