"""The quotas of one connection's client, applied to what it sends and gets.

Each returns for how many ms the client is throttled (KIP-219). The gateway mutes the connection that long,
so that it is held to its rate even if it pays no attention to throttle_time_ms.
"""

from typing import Final

from highwater.gateway.quota.core.precedence import ClientLimits, Limit
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.model.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

UNLIMITED_BYTES: Final = 1 << 62
_NS_PER_PERCENT_SECOND: Final = 10_000_000
"""A hundredth of a second of the loop."""
_MS: Final = 1000


class ClientQuota:
    """A `QuotaPort`. Lives until the connection's client has other quotas."""

    __slots__ = ("_rates", "fetch_bytes_max", "limits", "times")

    def __init__(self, limits: ClientLimits, rates: QuotaRates) -> None:
        self.limits = limits
        self._rates = rates
        self.times = limits.request is not None
        consume, window_ms = limits.consume, rates.windows.size_ms
        # Kafka gives all windows' worth at once; with one window's the delays stay near its length.
        self.fetch_bytes_max = (
            UNLIMITED_BYTES if consume is None else max(1, int(consume.rate * window_ms / _MS))
        )

    # ---- Produce and Fetch ----

    def produced(self, nbytes: int, throttle_ms: int) -> int:
        """See `QuotaPort`."""
        return self._counted(self.limits.produce, PRODUCER_BYTE_RATE, nbytes, throttle_ms)

    def consumed(self, nbytes: int, throttle_ms: int) -> int:
        """See `QuotaPort`."""
        return self._counted(self.limits.consume, CONSUMER_BYTE_RATE, nbytes, throttle_ms)

    def fetch_hold_ms(self) -> int:
        """See `QuotaPort`."""
        return self._counted(self.limits.consume, CONSUMER_BYTE_RATE, 0, 0)

    def _counted(self, limit: Limit | None, kind: str, nbytes: int, throttle_ms: int) -> int:
        rates = self._rates
        now_ms = rates.now_ms()
        own_ms = 0
        if limit is not None:
            rate = rates.rate(limit.measured, now_ms)
            if nbytes:
                rate.record(now_ms, nbytes)
            own_ms = rate.held_ms(now_ms, limit.rate)
        return self._longest(kind, own_ms, throttle_ms, now_ms)

    # ---- time ----

    def worked(self, ns: int) -> None:
        """See `QuotaPort`."""
        limit = self.limits.request
        if limit is not None:
            now_ms = self._rates.now_ms()
            rate = self._rates.rate(limit.measured, now_ms)
            rate.record(now_ms, ns / _NS_PER_PERCENT_SECOND)

    def _request_ms(self, now_ms: int) -> int:
        """At most one window, as in Kafka (`ClientRequestQuotaManager`): heartbeats must go on."""
        limit = self.limits.request
        if limit is None:
            return 0
        delay_ms = self._rates.rate(limit.measured, now_ms).delay_ms(now_ms, limit.rate)
        return min(delay_ms, self._rates.windows.size_ms)

    def _longest(self, kind: str, own_ms: int, throttle_ms: int, now_ms: int) -> int:
        """The longest of the delays; counts it for the kind of quota that it is due to."""
        request_ms = self._request_ms(now_ms)
        if request_ms > own_ms:
            kind, own_ms = REQUEST_PERCENTAGE, request_ms
        if own_ms:
            self._rates.count(kind, own_ms)
        return max(own_ms, throttle_ms)

    # ---- other requests ----

    def may_change(self, partitions: int, *, strict: bool) -> bool:
        """See `QuotaPort`."""
        limit = self.limits.mutation
        if limit is None:
            return True
        now_ms = self._rates.now_ms()
        tokens = self._rates.tokens(limit.measured, now_ms)
        if strict and not tokens.may_take(now_ms, limit.rate):
            return False
        tokens.take(now_ms, limit.rate, partitions)
        return True

    def request_ended(self, ns: int, *, changes: bool) -> int:
        """See `QuotaPort`."""
        self.worked(ns)
        now_ms = self._rates.now_ms()
        limit, mutation_ms = self.limits.mutation, 0
        if changes and limit is not None:
            tokens = self._rates.tokens(limit.measured, now_ms)
            mutation_ms = tokens.delay_ms(now_ms, limit.rate)
        return self._longest(CONTROLLER_MUTATION_RATE, mutation_ms, 0, now_ms)
