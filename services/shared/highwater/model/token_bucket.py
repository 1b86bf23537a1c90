"""Enforces a byte rate at one node: computes how long bytes must be held.

The generic cell rate algorithm (GCRA) as a bucket of tokens: it holds a burst's worth at most, time
fills it at the rate, and each byte that passes takes one. Bytes that may not be split take more than
there are, so a bucket may owe. Tokens are kept, not GCRA's single timestamp, because the rate changes
meanwhile (a new allocation each second, decay after its expiry). With a new rate the tokens stay, and are
cut to the new burst: a larger share brings the right to more bytes a second, but no burst at once. So
where rates of several nodes add up to L at each moment, all of them let pass L * W in W seconds,
the tokens that they had at its begin, and their largest requests, however often shares move.

There are two ways to use it. For the head of a queue: wait for `hold_ms` until it is 0, then
`charge`; this is exact and follows every change of the rate. Or `charge` at once and hold for the
time that it returns: this is one call, and exact while the rate does not change and holds are below
HOLD_MS_MAX. Bytes that have passed already (a fetch) are charged afterwards; `hold_ms` of 0 bytes
says when the next may pass.

The guarantee for held bytes: in any window of W seconds at a constant rate L at most
L * W + max(burst, largest request) bytes pass. A request above the burst cannot be split, so it
passes as a whole once the bucket is full, and later ones wait for it.
"""

import math
from typing import Final

from highwater.model.rate_schedule import RateSchedule

BURST_S: Final = 0.1
"""Seconds' worth of bytes that may pass at once after a pause; smooths out request sizes."""

HOLD_MS_MAX: Final = 5_000
"""The longest hold that is told. A share may grow within a second (after a leader has moved here), so the
current one must not hold anybody for minutes: whoever waits asks again then, before he passes."""

DECAY_MS: Final = 3_000
"""From the end of a lease to the floor: as long as the lease itself (three ticks)."""

GROWTH_LEASES: Final = 4
"""A rate below its floor stays for so many times of a lease. Leases of nodes end at different times, and one
node may be cut off alone: nobody may take more before all others have come down to their floors, or the
quota service has noticed, after ten ticks, and has taken the difference back from them."""

_ROUNDING_MS: Final = 1e-6
"""Rounding errors of times, which must not become a whole millisecond."""


class TokenBucket:
    """One direction of one instance on one node. Owned by one loop; times are monotonic ms."""

    __slots__ = ("_at_ms", "_schedule", "_tokens")

    def __init__(self, *, rate: float | None = None, now_ms: float = 0) -> None:
        """`rate` in bytes per second; None is unlimited. The bucket is full."""
        self._schedule: RateSchedule | None = None
        self._tokens = 0.0
        """Below 0 it owes. Without meaning while it is unlimited."""
        self._at_ms = now_ms
        self.set_rate(now_ms, rate)

    @property
    def unlimited(self) -> bool:
        """True if nothing is ever held."""
        return self._schedule is None

    def rate(self, now_ms: float) -> float | None:
        """Bytes per second at this moment, None if unlimited."""
        return None if self._schedule is None else self._schedule.rate_at(now_ms)

    def set_rate(self, now_ms: float, rate: float | None) -> None:
        """Sets a rate without an end. The tokens stay, up to the new burst."""
        self._set(now_ms, None if rate is None else RateSchedule.constant(rate))

    def set_lease(
        self,
        now_ms: float,
        *,
        rate: float,
        floor: float,
        expires_in_ms: int,
        decay_ms: int = DECAY_MS,
    ) -> None:
        """Sets a rate until the lease ends; it then moves to the floor linearly over `decay_ms`.

        A rate below the floor stays longer, until those of all other nodes must have come down.
        """
        stays_ms = expires_in_ms
        if rate < floor:
            stays_ms = max(GROWTH_LEASES * expires_in_ms, 2 * expires_in_ms + decay_ms)
        self._set(
            now_ms,
            RateSchedule(rate=rate, floor=floor, expires_ms=now_ms + stays_ms, decay_ms=decay_ms),
        )

    def _set(self, now_ms: float, schedule: RateSchedule | None) -> None:
        self._pay(now_ms)
        begins = self._schedule is None
        self._schedule = schedule
        if schedule is not None:
            burst = _burst(schedule, now_ms)
            self._tokens = burst if begins else min(self._tokens, burst)

    def hold_ms(self, now_ms: float, nbytes: int, *, behind: int = 0) -> int:
        """How long `nbytes` would have to be held from now on, after `behind` others that wait;
        charges nothing.
        """
        schedule = self._schedule
        if schedule is None:
            return 0
        self._pay(now_ms)
        rate = schedule.rate_at(now_ms)
        if rate <= 0:
            return HOLD_MS_MAX  # At rate 0 the first request waits, too.
        lacking = min(_burst(schedule, now_ms), nbytes) + behind - self._tokens
        if lacking <= 0:
            return 0
        held_ms = min(HOLD_MS_MAX, schedule.ms_until(now_ms, lacking))
        # Round up: 0 would mean "pass now".
        return math.ceil(held_ms - _ROUNDING_MS)

    def charge(self, now_ms: float, nbytes: int) -> int:
        """Takes tokens for `nbytes`; returns for how many ms they must be held."""
        if self._schedule is None:
            return 0
        held_ms = self.hold_ms(now_ms, nbytes)
        self._tokens -= nbytes
        return held_ms

    def available_bytes(self, now_ms: float) -> int | None:
        """How many bytes would pass now without being held; None if unlimited."""
        if self._schedule is None:
            return None
        self._pay(now_ms)
        return max(0, int(self._tokens))

    def excess_bytes(self, now_ms: float) -> int:
        """Bytes that have passed ahead of the rate and its burst: what waits to be paid off."""
        if self._schedule is None:
            return 0
        self._pay(now_ms)
        return max(0, math.ceil(-self._tokens))

    def _pay(self, now_ms: float) -> None:
        if now_ms <= self._at_ms:
            return
        schedule = self._schedule
        if schedule is not None:
            filled = self._tokens + schedule.bytes_between(self._at_ms, now_ms)
            self._tokens = min(_burst(schedule, now_ms), filled)
        self._at_ms = now_ms


def _burst(schedule: RateSchedule, now_ms: float) -> float:
    """Tokens of a full bucket. A rate that grows to its floor brings the larger burst at the end:
    otherwise a large request would wait for a bucket that grows while it is filled.
    """
    rate = schedule.rate_at(now_ms)
    if now_ms < schedule.floor_ms:
        rate = min(rate, schedule.rate)
    return rate * BURST_S
