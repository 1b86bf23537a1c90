"""How many connections a gateway takes, and how fast: of all clients, by a listener, of an address (KIP-402, 612).

Kafka's `ConnectionQuotas`, but for its inter-broker listener, which is exempt from a broker's limits there:
nodes do not come by listeners here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from highwater.gateway.quota.core.windowed_rate import QuotaWindows, WindowedRate
from highwater.model.connection_configs import (
    CONNECTIONS,
    PER_ADDRESS,
    PER_ADDRESS_OVERRIDES,
    RATE,
    listener_config_of,
    overrides_of,
)


class Present(Protocol):
    """Who is connected now."""

    def __len__(self) -> int:
        """All of them."""
        ...

    def by(self, listener: str) -> int:
        """Those who came by that listener."""
        ...

    def of(self, host: str) -> int:
        """Those of that address."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What the configs say; what has no limit is not in it, or None. Listeners by name."""

    rate: int | None = None
    """Connections a second."""
    connections: int | None = None
    of_address: int | None = None
    of_addresses: Mapping[str, int] = field(default_factory=dict)
    rate_by: Mapping[str, int] = field(default_factory=dict)
    connections_by: Mapping[str, int] = field(default_factory=dict)

    @property
    def waits(self) -> bool:
        """True if some connection may have to wait."""
        whole = self.rate is not None or self.connections is not None
        return whole or bool(self.rate_by or self.connections_by)

    @property
    def refuses(self) -> bool:
        """True if some address may have too many."""
        return self.of_address is not None or bool(self.of_addresses)


NO_LIMITS: Final = ConnectionLimits()


def connection_limits(configs: Mapping[str, str]) -> ConnectionLimits:
    """The limits of a broker with these dynamic configs, which are valid."""
    by: dict[str, dict[str, int]] = {RATE: {}, CONNECTIONS: {}}
    for name, value in configs.items():
        of_listener = listener_config_of(name)
        if of_listener is not None:
            listener, config = of_listener
            by[config][listener] = int(value)
    return ConnectionLimits(
        rate=_number(configs, RATE),
        connections=_number(configs, CONNECTIONS),
        of_address=_number(configs, PER_ADDRESS),
        of_addresses=overrides_of(configs.get(PER_ADDRESS_OVERRIDES, "")),
        rate_by=by[RATE],
        connections_by=by[CONNECTIONS],
    )


def _number(configs: Mapping[str, str], name: str) -> int | None:
    return int(configs[name]) if name in configs else None


class ConnectionTurns:
    """When a connection may come in that is the next one of its listener. Lives as long as the gateway."""

    __slots__ = ("_by", "_present", "_whole", "_windows", "limits")

    def __init__(self, windows: QuotaWindows, present: Present) -> None:
        self._windows = windows
        self._present = present
        self._whole = WindowedRate(windows)
        self._by: dict[str, WindowedRate] = {}
        """Of listeners that have had a limit."""
        self.limits = NO_LIMITS

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Counts one more connection; how long it then waits, a window at most."""
        limits = self.limits
        delay_ms = 0
        if limits.rate is not None:
            delay_ms = _counted(self._whole, limits.rate, now_ms)
        limit = limits.rate_by.get(listener)
        if limit is not None:
            rate = self._by.get(listener)
            if rate is None:
                rate = self._by[listener] = WindowedRate(self._windows)
            delay_ms = max(delay_ms, _counted(rate, limit, now_ms))
        return min(delay_ms, self._windows.size_ms)

    def has_room(self, listener: str) -> bool:
        """True if there may be one more by that listener."""
        limits, present = self.limits, self._present
        if limits.connections is not None and len(present) >= limits.connections:
            return False
        most = limits.connections_by.get(listener)
        return most is None or present.by(listener) < most

    def takes_of(self, host: str) -> bool:
        """True if there may be one more of that address, in its canonical form."""
        limits = self.limits
        most = limits.of_addresses.get(host, limits.of_address)
        return most is None or self._present.of(host) < most


def _counted(rate: WindowedRate, limit: int, now_ms: int) -> int:
    rate.record(now_ms, 1)
    return rate.delay_ms(now_ms, limit)
