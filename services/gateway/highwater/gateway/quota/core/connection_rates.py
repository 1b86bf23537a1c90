"""Whether a new connection from an address is taken (KIP-612; Kafka's `ConnectionQuotas`).

A connection above the rate of its address is not counted. It waits, unread, until the rate is down again, but
at most one window; then it is closed, and its client tries again later than it would after a refusal.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.gateway.quota.core.precedence import (
    NO_ADDRESS_LIMITS,
    AddressLimits,
    canonical_address,
)
from highwater.gateway.quota.core.recent import Recent
from highwater.gateway.quota.core.windowed_rate import QuotaWindows, WindowedRate
from highwater.model.ids import InstanceId

ADDRESSES_MAX: Final = 20_000
"""Addresses measured at a time; only those with a limit are."""


class ConnectionRates:
    """See the module. Lives as long as the gateway."""

    __slots__ = ("_now_ms", "_rates", "_windows", "limits")

    def __init__(self, windows: QuotaWindows, now_ms: Callable[[], int]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._rates: Recent[tuple[InstanceId, str], WindowedRate] = Recent(
            partial(WindowedRate, windows), idle_ms=windows.span_ms, entries_max=ADDRESSES_MAX
        )
        self.limits: AddressLimits = NO_ADDRESS_LIMITS

    def hold_ms(self, instance: InstanceId, host: str) -> int:
        """0 if a connection is taken; otherwise for how many ms it waits before it is closed."""
        limit = self.limits.limit_of(instance, host) if self.limits else None
        if limit is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rates.get((instance, canonical_address(host)), now_ms)
        delay_ms = rate.delay_ms(now_ms, limit, more=1)
        if delay_ms:
            return min(delay_ms, self._windows.size_ms)
        rate.record(now_ms, 1)
        return 0
