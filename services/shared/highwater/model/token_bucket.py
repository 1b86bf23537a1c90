"""Enforces a byte rate at one node: computes how long bytes must be held.

The generic cell rate algorithm (GCRA) in the form of a debt: every byte that passes adds to the
debt, time pays it back at the rate, and bytes pass as long as the debt stays within the burst. The
debt is kept in bytes, not as GCRA's single timestamp, because the rate changes while there is a debt
(a new allocation each second, decay after its expiry).

There are two ways to use it. For the head of a queue: wait for `hold_ms` until it is 0, then
`charge`; this is exact and follows every change of the rate. Or `charge` at once and hold for the
time that it returns: this is one call, and exact while the rate does not change and holds are below
HOLD_MS_MAX. Bytes that have passed already (a fetch) are charged afterwards; `hold_ms` of 0 bytes
says when the next may pass.

The guarantee for held bytes: in any window of W seconds at a constant rate L at most
L * W + max(burst, largest request) bytes pass. A request above the burst cannot be split, so it
passes as a whole once the debt is paid off, and later ones wait for it.
"""

import math
from typing import Final

from highwater.model.rate_schedule import RateSchedule

BURST_S: Final = 0.1
"""Seconds' worth of bytes that may pass at once after a pause; smooths out request sizes."""

HOLD_MS_MAX: Final = 5_000
"""The longest hold. A share may grow within a second (after a leader has moved here), so the current
one must not hold anybody for minutes."""

DECAY_MS: Final = 3_000
"""From the end of a lease to the floor: as long as the lease itself (three ticks)."""


_ROUNDING_MS: Final = 1e-6
"""Rounding errors of times, which must not become a whole millisecond."""


class TokenBucket:
    """One direction of one instance on one node. Owned by one loop; times are monotonic ms."""

    __slots__ = ("_at_ms", "_debt", "_schedule")

    def __init__(self, *, rate: float | None = None, now_ms: float = 0) -> None:
        """`rate` in bytes per second; None is unlimited."""
        self._schedule = None if rate is None else RateSchedule.constant(rate)
        self._debt = 0.0
        self._at_ms = now_ms

    @property
    def unlimited(self) -> bool:
        """True if nothing is ever held."""
        return self._schedule is None

    def rate(self, now_ms: float) -> float | None:
        """Bytes per second at this moment, None if unlimited."""
        return None if self._schedule is None else self._schedule.rate_at(now_ms)

    def set_rate(self, now_ms: float, rate: float | None) -> None:
        """Sets a rate without an end. The debt stays."""
        self._pay(now_ms)
        self._schedule = None if rate is None else RateSchedule.constant(rate)

    def set_lease(
        self,
        now_ms: float,
        *,
        rate: float,
        floor: float,
        expires_in_ms: int,
        decay_ms: int = DECAY_MS,
    ) -> None:
        """Sets a rate until the lease ends; it then moves to the floor linearly over `decay_ms`."""
        self._pay(now_ms)
        self._schedule = RateSchedule(
            rate=rate, floor=floor, expires_ms=now_ms + expires_in_ms, decay_ms=decay_ms
        )

    def hold_ms(self, now_ms: float, nbytes: int) -> int:
        """How long `nbytes` would have to be held from now on; charges nothing."""
        if self._schedule is None:
            return 0
        self._pay(now_ms)
        rate = self._schedule.rate_at(now_ms)
        if rate <= 0:
            return HOLD_MS_MAX  # At rate 0 the first request waits, too.
        allowed = max(0.0, rate * BURST_S - nbytes)
        excess = self._debt - allowed
        if excess <= 0:
            return 0
        held_ms = min(HOLD_MS_MAX, self._schedule.ms_until(now_ms, excess))
        # Round up: 0 would mean "pass now".
        return math.ceil(held_ms - _ROUNDING_MS)

    def charge(self, now_ms: float, nbytes: int) -> int:
        """Adds `nbytes` to the debt; returns for how many ms they must be held."""
        if self._schedule is None:
            return 0
        held_ms = self.hold_ms(now_ms, nbytes)
        self._debt += nbytes
        return held_ms

    def available_bytes(self, now_ms: float) -> int | None:
        """How many bytes would pass now without being held; None if unlimited."""
        if self._schedule is None:
            return None
        self._pay(now_ms)
        return max(0, int(self._schedule.rate_at(now_ms) * BURST_S - self._debt))

    def excess_bytes(self, now_ms: float) -> int:
        """Bytes that have passed ahead of the rate and its burst: what waits to be paid off."""
        if self._schedule is None:
            return 0
        self._pay(now_ms)
        return max(0, math.ceil(self._debt - self._schedule.rate_at(now_ms) * BURST_S))

    def _pay(self, now_ms: float) -> None:
        if now_ms <= self._at_ms:
            return
        if self._schedule is None:
            self._debt = 0.0
        else:
            self._debt = max(0.0, self._debt - self._schedule.bytes_between(self._at_ms, now_ms))
        self._at_ms = now_ms
