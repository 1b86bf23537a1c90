"""Lists of networks in CIDR notation, and whether an address is in one of them.

An address without a length is a network of itself. Bits behind the length do not count: 10.1.2.3/8 is
10.0.0.0/8. IPv4 addresses are in IPv4 networks only, also if they come mapped into IPv6 (::ffff:10.1.2.3),
as they do on a socket for both; networks may be written that way, too.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network

NOWHERE: Final = "none"
"""In place of a list, where an empty one means anywhere."""
NETWORKS_MAX: Final = 1000
"""In one list, since each is looked at when a client connects."""
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


class Networks:
    """The addresses of a list; of an empty one, none."""

    __slots__ = ("_v4", "_v6")

    def __init__(self, cidrs: Iterable[str]) -> None:
        """Raises ValueError, with what is wrong, for an entry that is no network, and for too many."""
        networks = [_network(cidr) for cidr in cidrs]
        if len(networks) > NETWORKS_MAX:
            raise ValueError(f"{len(networks)} networks are more than {NETWORKS_MAX}")
        self._v4 = [(int(n.network_address), int(n.netmask)) for n in networks if n.version == 4]
        self._v6 = [(int(n.network_address), int(n.netmask)) for n in networks if n.version == 6]

    def holds(self, host: str) -> bool:
        """True if the address is in one of them; False for a text that is no address."""
        try:
            address = ip_address(host)
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        number = int(address)
        among = self._v4 if address.version == 4 else self._v6
        return any(number & mask == network for network, mask in among)


def canonical_address(text: str) -> str:
    """An address in the one form of all its texts: `::1` of `0:0:0:0:0:0:0:1`, IPv4 where it is mapped into
    IPv6. What is no address stays as it is.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def networks_of_config(text: str) -> Networks | None:
    """The addresses of a topic config: networks with commas between them, `none` for no address.

    None for an empty text: all addresses. Raises ValueError.
    """
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        return None
    return Networks(() if items == [NOWHERE] else items)


def _network(cidr: str) -> Network:
    found = ip_network(cidr.strip(), strict=False)
    if isinstance(found, IPv6Network) and found.subnet_of(_MAPPED):
        address = found.network_address.ipv4_mapped
        return IPv4Network((str(address), found.prefixlen - _MAPPED.prefixlen))
    return found
