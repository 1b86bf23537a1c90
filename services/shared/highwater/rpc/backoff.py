"""When a channel connects again, and whether a failed call may be repeated."""

from collections.abc import Callable
from typing import Final

from highwater.runtime.grpc_channel import RECONNECT_BACKOFF_MS

_GROWTH: Final = 1.6
_JITTER: Final = 0.2
"""Both as in gRPC's connection-backoff document."""

RETRY_ATTEMPTS_MAX: Final = 3
RETRY_BACKOFF_S: Final = (0.05, 0.5)
"""Initial and maximum; doubled from attempt to attempt."""


class ConnectBackoff:
    """Pauses between attempts to connect, in seconds."""

    def __init__(self, random: Callable[[], float]) -> None:
        """`random` returns numbers from 0 to 1."""
        self._random = random
        self._next_s = RECONNECT_BACKOFF_MS[0] / 1000

    def failed(self) -> float:
        """How long to wait after this failure."""
        pause_s = self._next_s
        self._next_s = min(pause_s * _GROWTH, RECONNECT_BACKOFF_MS[2] / 1000)
        return pause_s * (1 + _JITTER * (2 * self._random() - 1))

    def succeeded(self) -> None:
        """Begins anew."""
        self._next_s = RECONNECT_BACKOFF_MS[0] / 1000


class RetryThrottle:
    """Stops retries to a peer that fails half of its calls (gRFC A6), to add nothing to its load."""

    _TOKENS_MAX: Final = 100.0
    _RATIO: Final = 0.1

    def __init__(self) -> None:
        self._tokens = self._TOKENS_MAX

    def failed(self) -> bool:
        """Counts a failure; whether it may be followed by a retry."""
        self._tokens = max(self._tokens - 1, 0.0)
        return self._tokens > self._TOKENS_MAX / 2

    def succeeded(self) -> None:
        """Counts a success."""
        self._tokens = min(self._tokens + self._RATIO, self._TOKENS_MAX)


def retry_pause_s(attempt: int, random: Callable[[], float]) -> float:
    """How long to wait after failed attempt 1, 2, ...: anything up to the backoff (gRFC A6)."""
    initial_s, greatest_s = RETRY_BACKOFF_S
    return random() * min(initial_s * (1 << (attempt - 1)), greatest_s)
