"""Enforcement of a byte rate at one node: how long must these bytes be held?

The generic cell rate algorithm (GCRA) in the form of a debt: every byte that passes adds to the
debt, time pays it back at the rate, and bytes pass as long as the debt stays within the burst. The
debt is kept in bytes rather than as GCRA's single timestamp, because the rate changes while debts
stand (a new allocation each second, decay after its expiry).

Two ways to use it. `hold_ms` before the bytes pass, again after that time, and `charge` when it says
0: follows every change of the rate and is exact; for the head of a queue. Or `charge` at once and
hold for as long as it says: one call, exact as long as the rate stands and holds stay below
HOLD_MS_MAX. Bytes already gone (a fetch) are charged afterwards, and `hold_ms` of nothing tells
when the next may go.

What it promises for held bytes: in any window of W seconds at a constant rate L no more than
L * W + max(burst, largest request) bytes pass. A request above the burst cannot be split, so it
passes as a whole once the debt is paid off, and the ones after it wait for it.
"""

import math
from typing import Final

from highwater.model.rate_schedule import RateSchedule

BURST_S: Final = 0.1
"""What may pass at once after a pause; a tenth of a second smooths out request sizes."""

HOLD_MS_MAX: Final = 5_000
"""The longest hold that is told. A share may grow within a second (a leader has just moved here),
so nobody should be sent away for minutes on the strength of the present one."""

DECAY_MS: Final = 3_000
"""From the end of a lease to the floor: as long again as the lease itself (three ticks)."""


_ROUNDING_MS: Final = 1e-6
"""What floating point may add to a time; not worth a whole millisecond."""


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
        """A rate without an end. The debt stays: it was made under the old rate, and is owed."""
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
        """A rate until the lease ends, then a linear way to the floor over `decay_ms`."""
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
            return HOLD_MS_MAX  # No share: also the first request waits.
        allowed = max(0.0, rate * BURST_S - nbytes)
        excess = self._debt - allowed
        if excess <= 0:
            return 0
        held_ms = min(HOLD_MS_MAX, self._schedule.ms_until(now_ms, excess))
        # Part of a millisecond would be told as "pass now", so it counts as a whole one.
        return math.ceil(held_ms - _ROUNDING_MS)

    def charge(self, now_ms: float, nbytes: int) -> int:
        """Takes `nbytes` into account and returns for how many ms they have to be held."""
        if self._schedule is None:
            return 0
        held_ms = self.hold_ms(now_ms, nbytes)
        self._debt += nbytes
        return held_ms

    def available_bytes(self, now_ms: float) -> int | None:
        """What would pass at this moment without being held; None if unlimited."""
        if self._schedule is None:
            return None
        self._pay(now_ms)
        return max(0, int(self._schedule.rate_at(now_ms) * BURST_S - self._debt))

    def _pay(self, now_ms: float) -> None:
        if now_ms <= self._at_ms:
            return
        if self._schedule is None:
            self._debt = 0.0
        else:
            self._debt = max(0.0, self._debt - self._schedule.bytes_between(self._at_ms, now_ms))
        self._at_ms = now_ms
