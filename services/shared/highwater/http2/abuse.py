"""Rates above which a peer's frames are a flood: the connection ends with ENHANCE_YOUR_CALM.

RFC 9113, section 10.5. Frames that bring no payload cost us more than they cost the peer. Nothing
but time gives allowance back: a message between two floods must not.
"""

from dataclasses import dataclass

from highwater.http2.errors import ConnectionViolationError, ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AbuseLimits:
    """Allowances: so many at once, and so many more each second."""

    control_burst: int = 5_000
    """PING, SETTINGS, PRIORITY, empty DATA, small WINDOW_UPDATE, frames of closed streams.
    A peer of ours sends a few per second; 1 000 cost about half a percent of a core."""
    control_per_s: float = 1_000.0
    reset_burst: int = 1_000
    """Streams that the peer cancels (CVE-2023-44487), or makes us reset (CVE-2025-8671). All calls
    of a connection may well be cancelled at once."""
    reset_per_s: float = 100.0


class RateLimit:
    """A token bucket; time in seconds, from any clock that does not go back."""

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at_s = 0.0

    def spend(self, now_s: float) -> bool:
        """Takes one token; False if there is none."""
        grown = self._left + (now_s - self._at_s) * self._per_s
        self._at_s = now_s
        self._left = min(grown, self._burst) - 1
        if self._left < 0:
            self._left = 0.0
            return False
        return True


class FrameRates:
    """The rates of one connection. `now_s` is set before each read's bytes are handled."""

    __slots__ = ("_control", "_resets", "now_s")

    def __init__(self, limits: AbuseLimits) -> None:
        self._control = RateLimit(limits.control_burst, limits.control_per_s)
        self._resets = RateLimit(limits.reset_burst, limits.reset_per_s)
        self.now_s = 0.0

    def control(self) -> None:
        """Counts a frame that brings nothing. Raises ConnectionViolationError."""
        if not self._control.spend(self.now_s):
            raise ConnectionViolationError(
                ErrorCode.ENHANCE_YOUR_CALM, "too many frames that carry nothing"
            )

    def reset(self) -> None:
        """Counts a stream that ended before its time. Raises ConnectionViolationError."""
        if not self._resets.spend(self.now_s):
            raise ConnectionViolationError(ErrorCode.ENHANCE_YOUR_CALM, "too many streams reset")
