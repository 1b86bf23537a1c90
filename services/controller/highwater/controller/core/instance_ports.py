"""Which ports instances take at gateways, and with whom they would share them.

A block is its bootstrap port and one port a node: bootstrap .. bootstrap + the highest node id; of a
gateway with a single port it is that port. Gateways of one advertised host, and all listeners of one
gateway, are taken to share a machine's ports. Unlike gateways (`highwater.model.block_overlaps`), which
come by themselves and can only be warned about, an instance is refused. What a node or a gateway that
comes later makes of it is told by `finding_overlaps`.

A deleted instance keeps its ports until it is purged, so that it can be restored.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from highwater.model.cluster import ClusterImage, GatewayState
from highwater.model.ids import GatewayId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.model.steps import Steps


class _Block(NamedTuple):
    """Ports first .. last, and whose they are, in words."""

    first: int
    last: int
    whose: str
    of_instance: bool = True


def highest_node(image: ClusterImage) -> int:
    """The highest id of a node, 0 without nodes."""
    return max(image.nodes, default=0)


def port_conflict(image: ClusterImage, wanted: InstanceState) -> str | None:
    """Whose ports the instance's blocks would take, in words; None if nobody's."""
    others = [each for each in image.instances.values() if each.instance != wanted.instance]
    return _taken_on_a_listener(image, wanted, others) or _taken_at_a_gateway(image, wanted, others)


def finding_overlaps(image: ClusterImage) -> Steps[frozenset[str]]:
    """In words, the overlaps that instances' blocks have now; in steps of a gateway and a host.

    Of several blocks that overlap each other, at least one pair.
    """
    highest = highest_node(image)
    spaces: defaultdict[str | GatewayId, set[_Block]] = defaultdict(set)
    for gateway in image.gateways.values():
        blocks = set(_own_blocks(gateway, highest))
        for state in image.instances.values():
            blocks.update(_blocks_at(gateway, state, highest))
        for space in (gateway.gateway_id, *_hosts(gateway)):
            spaces[space] |= blocks
        yield
    found: set[str] = set()
    for space, taken in spaces.items():
        for one, other in pairwise(sorted(taken)):
            if other.first <= one.last and (one.of_instance or other.of_instance):
                found.add(
                    f"ports {one.first} to {one.last} of {one.whose} and {other.first} to {other.last} "
                    f"of {other.whose} overlap at {space}"
                )
        yield
    return frozenset(found)


def _taken_on_a_listener(
    image: ClusterImage, wanted: InstanceState, others: Iterable[InstanceState]
) -> str | None:
    """Blocks of two instances on one listener: so whether or not a gateway has that listener now."""
    gateways = image.gateways.values()
    last = 0 if gateways and all(each.single_port for each in gateways) else highest_node(image)
    for other in others:
        for block in wanted.listeners:
            present = other.listener(block.listener)
            if present is not None and abs(block.port - present.port) <= last:
                return _words(
                    _block(wanted, block, 0, last), _block(other, present, 0, last), block.listener
                )
    return None


def _taken_at_a_gateway(
    image: ClusterImage, wanted: InstanceState, others: Iterable[InstanceState]
) -> str | None:
    """The instance's blocks at one gateway, and any block at a gateway with the same host."""
    highest = highest_node(image)
    mine: defaultdict[str | GatewayId, set[_Block]] = defaultdict(set)
    for gateway in image.gateways.values():
        blocks = set(_blocks_at(gateway, wanted, highest))
        for host in (gateway.gateway_id, *_hosts(gateway)):
            mine[host] |= blocks
    others = [each for each in others if each.listeners]
    for gateway in image.gateways.values():
        near = set[_Block]().union(*(mine[h] for h in (gateway.gateway_id, *_hosts(gateway))))
        taken = [*_own_blocks(gateway, highest)]
        for other in others:
            taken += _blocks_at(gateway, other, highest)
        for block in near:
            for present in taken:
                if block.first <= present.last and present.first <= block.last:
                    return _words(block, present, f"at gateway {gateway.gateway_id}")
    return None


def _blocks_at(gateway: GatewayState, state: InstanceState, highest: int) -> Iterator[_Block]:
    listeners = {DEFAULT_LISTENER, *(each.name for each in gateway.listeners)}
    last = 0 if gateway.single_port else highest
    for each in state.listeners:
        if each.listener in listeners:
            yield _block(state, each, gateway.instance_port_shift, last)


def _own_blocks(gateway: GatewayState, highest: int) -> Iterator[_Block]:
    last = 0 if gateway.single_port else highest
    blocks = [(DEFAULT_LISTENER, gateway.port)]
    blocks += [(each.name, each.port) for each in gateway.listeners]
    for name, port in blocks:
        whose = f"listener {name} of gateway {gateway.gateway_id}"
        yield _Block(port, port + last, whose, of_instance=False)


def _block(state: InstanceState, listener: InstanceListener, shift: int, last: int) -> _Block:
    first = listener.port + shift
    deleted = (
        ", which is deleted and keeps its ports until it is purged" if state.is_deleted else ""
    )
    return _Block(first, first + last, f"instance {state.instance}{deleted}")


def _hosts(gateway: GatewayState) -> set[str]:
    return {gateway.host, *(each.host for each in gateway.listeners)}


def _words(mine: _Block, present: _Block, where: str) -> str:
    return (
        f"ports {mine.first} to {mine.last} ({where}) would overlap ports {present.first} to "
        f"{present.last} of {present.whose}: blocks have to differ by more than the highest node id"
    )
