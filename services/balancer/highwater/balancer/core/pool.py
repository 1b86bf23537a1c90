"""The gateways behind a balancer: which there are, which are healthy, and who takes the next client.

A gateway that is new is taken once a check has succeeded, and left after `FALL` checks that failed
in a row; connections to it live on, since a slow answer is no proof of a death. The one with the
fewest connections is next, the one that waited longest among equals.
"""

from collections.abc import Collection, Iterable
from typing import Final

FALL: Final = 2


class Gateway:
    """One address."""

    __slots__ = ("connections", "failures", "taken_last", "up")

    def __init__(self) -> None:
        self.up = False
        self.failures = 0
        self.connections = 0
        self.taken_last = 0
        """Number of the choice that it was taken by last."""


class Pool:
    """All gateways of a balancer."""

    def __init__(self) -> None:
        self._gateways: dict[str, Gateway] = {}
        self._choices = 0

    @property
    def addresses(self) -> list[str]:
        """All that the names stand for now."""
        return list(self._gateways)

    @property
    def up(self) -> list[str]:
        """Those that take clients."""
        return [address for address, gateway in self._gateways.items() if gateway.up]

    def resolved(self, addresses: Iterable[str]) -> None:
        """These are the gateways from now on; those that stay keep their health."""
        self._gateways = {
            address: self._gateways.get(address) or Gateway() for address in addresses
        }

    def checked(self, address: str, *, healthy: bool) -> bool:
        """Takes the result of a check; True if the gateway has come up or gone down by it."""
        gateway = self._gateways.get(address)
        if gateway is None:
            return False  # The name was looked up again meanwhile.
        was_up = gateway.up
        gateway.failures = 0 if healthy else gateway.failures + 1
        gateway.up = healthy or (was_up and gateway.failures < FALL)
        return gateway.up != was_up

    def choose(self, but: Collection[str] = ()) -> str | None:
        """Who takes the next client, `but` those that were tried; None if nobody can."""
        best = min(
            ((a, g) for a, g in self._gateways.items() if g.up and a not in but),
            key=lambda one: (one[1].connections, one[1].taken_last),
            default=None,
        )
        if best is None:
            return None
        self._choices += 1
        best[1].taken_last = self._choices
        return best[0]

    def opened(self, address: str) -> Gateway:
        """A connection to it was made; give what this returns to `closed`."""
        gateway = self._gateways.get(address) or Gateway()
        gateway.connections += 1
        return gateway

    @staticmethod
    def closed(gateway: Gateway) -> None:
        """A connection has ended, perhaps after its gateway's address was gone."""
        gateway.connections -= 1
        assert gateway.connections >= 0
