"""All rates that a gateway measures for client quotas, and how often it has throttled clients."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.gateway.quota.core.mutation_tokens import MutationTokens
from highwater.gateway.quota.core.precedence import Measured
from highwater.gateway.quota.core.recent import Recent
from highwater.gateway.quota.core.windowed_rate import QuotaWindows, WindowedRate

RATES_MAX: Final = 100_000
"""Rates measured at a time, some 700 bytes each: two for each of 50 000 connections."""
DEBTS_MAX: Final = 10_000
"""Clients whose created and deleted partitions are counted."""
DEBTS_IDLE_MS: Final = 3_600_000
"""A debt of partitions may take long to pay; Kafka forgets what has rested for an hour, too."""


@dataclass(slots=True)
class Throttled:
    """How often clients were throttled for one kind of quota, and for how long in all."""

    requests: int = 0
    ms: int = 0


class QuotaRates:
    """See the module. Lives as long as the gateway."""

    def __init__(self, windows: QuotaWindows, now_ms: Callable[[], int]) -> None:
        self.windows = windows
        self.now_ms = now_ms
        self.throttled: defaultdict[str, Throttled] = defaultdict(Throttled)
        """By kind of quota."""
        self._rates: Recent[Measured, WindowedRate] = Recent(
            partial(WindowedRate, windows), idle_ms=windows.span_ms, entries_max=RATES_MAX
        )
        self._tokens: Recent[Measured, MutationTokens] = Recent(
            partial(MutationTokens, windows), idle_ms=DEBTS_IDLE_MS, entries_max=DEBTS_MAX
        )

    def __len__(self) -> int:
        """How many are measured now."""
        return len(self._rates) + len(self._tokens)

    def rate(self, measured: Measured, now_ms: int) -> WindowedRate:
        """The rate that these clients have together."""
        return self._rates.get(measured, now_ms)

    def tokens(self, measured: Measured, now_ms: int) -> MutationTokens:
        """Their tokens for partitions."""
        return self._tokens.get(measured, now_ms)

    def count(self, kind: str, ms: int) -> None:
        """A request was throttled for that long."""
        throttled = self.throttled[kind]
        throttled.requests += 1
        throttled.ms += ms
