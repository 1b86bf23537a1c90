"""The gateways behind a balancer with their health; chooses the one for the next client.

A new gateway gets clients once a check has succeeded, and none after `FALL` checks failed in a row;
its connections stay open, since a slow gateway need not be dead. The gateway with the fewest
connections is chosen, among equals the one that was chosen the longest time ago.

A gateway need not serve every port: that of a node whose process has a gateway is served there alone,
and by others when that process is gone. So a port that a gateway refuses is tried there last, until
its next check.
"""

from collections.abc import Collection, Iterable
from typing import Final

FALL: Final = 2


class Gateway:
    """One address."""

    __slots__ = ("connections", "failures", "refused", "taken_last", "up")

    def __init__(self) -> None:
        self.up = False
        self.failures = 0
        self.connections = 0
        self.taken_last = 0
        """Number of its last choice; smaller means longer ago."""
        self.refused: set[int] = set()
        """Ports that it refused since its last check."""


class Pool:
    """All gateways of a balancer."""

    def __init__(self) -> None:
        self._gateways: dict[str, Gateway] = {}
        self._choices = 0

    @property
    def addresses(self) -> list[str]:
        """The current addresses of all names."""
        return list(self._gateways)

    @property
    def up(self) -> list[str]:
        """The healthy gateways, which get clients."""
        return [address for address, gateway in self._gateways.items() if gateway.up]

    def resolved(self, addresses: Iterable[str]) -> None:
        """Replaces the gateways; those that stay keep their health."""
        self._gateways = {
            address: self._gateways.get(address) or Gateway() for address in addresses
        }

    def checked(self, address: str, *, healthy: bool) -> bool:
        """Takes the result of a check; True if the gateway's health has changed."""
        gateway = self._gateways.get(address)
        if gateway is None:
            return False  # A later look-up has removed the address.
        was_up = gateway.up
        gateway.refused.clear()
        gateway.failures = 0 if healthy else gateway.failures + 1
        gateway.up = healthy or (was_up and gateway.failures < FALL)
        return gateway.up != was_up

    def choose(self, port: int, but: Collection[str] = ()) -> str | None:
        """Chooses the gateway for the next client of a gateways' port, but none of `but`; None if there is
        none.
        """
        best = min(
            ((a, g) for a, g in self._gateways.items() if g.up and a not in but),
            key=lambda one: (port in one[1].refused, one[1].connections, one[1].taken_last),
            default=None,
        )
        if best is None:
            return None
        self._choices += 1
        best[1].taken_last = self._choices
        return best[0]

    def refused(self, address: str, port: int) -> None:
        """The gateway does not listen on that port."""
        gateway = self._gateways.get(address)
        if gateway is not None:
            gateway.refused.add(port)

    def opened(self, address: str) -> Gateway:
        """Counts a connection to the gateway; pass the result to `closed` when it ends."""
        gateway = self._gateways.get(address) or Gateway()
        gateway.connections += 1
        return gateway

    @staticmethod
    def closed(gateway: Gateway) -> None:
        """Counts the end of a connection; the gateway may have been removed meanwhile."""
        gateway.connections -= 1
        assert gateway.connections >= 0
