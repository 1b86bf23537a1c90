"""The token bucket of partitions that are created and deleted (KIP-599; Kafka's `TokenBucket`).

It holds as many tokens as the limit gives in all windows. A change may take more than there are, if any are
left or none are owed; after it, there is a debt, and nothing more passes until it is paid.
"""

import math
from typing import Final

from highwater.gateway.quota.core.windowed_rate import THROTTLE_MS_MAX, QuotaWindows

_MS: Final = 1000
_ROUNDING: Final = 1e-6
"""Of tokens: who has waited as long as told may not be refused for it."""


class MutationTokens:
    """One bucket; full at first. Times are monotonic ms, `limit` is in partitions a second."""

    __slots__ = ("_at_ms", "_span_ms", "_tokens", "used_ms")

    def __init__(self, windows: QuotaWindows) -> None:
        self._span_ms = windows.span_ms
        self._tokens: float | None = None
        self._at_ms = 0
        self.used_ms = 0
        """As in `WindowedRate`."""

    def may_take(self, now_ms: int, limit: float) -> bool:
        """True if no debt is left."""
        return self._filled(now_ms, limit) >= -_ROUNDING

    def take(self, now_ms: int, limit: float, partitions: int) -> None:
        """Takes tokens, also those that are not there."""
        self._tokens = self._filled(now_ms, limit) - partitions

    def delay_ms(self, now_ms: int, limit: float) -> int:
        """How long until the debt is paid; 0 without one."""
        debt = -self._filled(now_ms, limit) - _ROUNDING
        return min(THROTTLE_MS_MAX, math.ceil(debt * _MS / limit)) if debt > 0 else 0

    def owes(self, _now_ms: int) -> bool:
        """No: it is kept for an hour, which is enough."""
        return False

    def _filled(self, now_ms: int, limit: float) -> float:
        most = limit * self._span_ms / _MS
        tokens = most if self._tokens is None else self._tokens
        tokens = min(most, tokens + limit * max(0, now_ms - self._at_ms) / _MS)
        self._tokens, self._at_ms = tokens, now_ms
        return tokens
