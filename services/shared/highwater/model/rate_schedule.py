"""A rate over time: a lease for a while, then a straight line down (or up) to a floor.

A node that cannot reach the quota service keeps its share until the lease ends and then moves to
its static share, so that the shares of all nodes return to the limit without coordination
(Doorman's safe capacity). Pure arithmetic over milliseconds and bytes.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Self

MS_PER_S = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSchedule:
    """Bytes per second as a function of time; constant, then linear, then constant."""

    rate: float
    """The rate until `expires_ms`."""
    floor: float
    """The rate from `expires_ms + decay_ms` on."""
    expires_ms: float = math.inf
    decay_ms: int = 0

    def __post_init__(self) -> None:
        assert self.rate >= 0
        assert self.floor >= 0
        assert self.decay_ms >= 0

    @classmethod
    def constant(cls, rate: float) -> Self:
        """The same rate for ever."""
        return cls(rate=rate, floor=rate)

    @property
    def floor_ms(self) -> float:
        """When the floor is reached."""
        return self.expires_ms + self.decay_ms

    def rate_at(self, now_ms: float) -> float:
        """Bytes per second at that moment."""
        if now_ms < self.expires_ms:
            return self.rate
        if now_ms >= self.floor_ms:
            return self.floor
        done = (now_ms - self.expires_ms) / self.decay_ms
        return self.rate + (self.floor - self.rate) * done

    def bytes_between(self, from_ms: float, to_ms: float) -> float:
        """How many bytes may pass between two moments."""
        if to_ms <= from_ms:
            return 0.0
        total = 0.0
        for start_ms, end_ms in self._pieces(from_ms, to_ms):
            middle = (self.rate_at(start_ms) + self._rate_before(end_ms)) / 2
            total += middle * (end_ms - start_ms) / MS_PER_S
        return total

    def ms_until(self, from_ms: float, wanted: float) -> float:
        """How long `wanted` bytes take to pass from `from_ms` on; infinite at rate 0."""
        left = wanted
        at_ms = from_ms
        for start_ms, end_ms in self._pieces(from_ms, math.inf):
            if left <= 0:
                break
            here = math.inf if end_ms == math.inf else self.bytes_between(start_ms, end_ms)
            if here >= left:
                rate = self.rate_at(start_ms)
                slope = 0.0
                if end_ms != math.inf:
                    slope = (self._rate_before(end_ms) - rate) / (end_ms - start_ms)
                return start_ms - from_ms + _solve(rate, slope, left)
            left -= here
            at_ms = end_ms
        return at_ms - from_ms

    def _pieces(self, from_ms: float, to_ms: float) -> list[tuple[float, float]]:
        """[from, to) cut where the formula changes."""
        cuts = [cut for cut in (self.expires_ms, self.floor_ms) if from_ms < cut < to_ms]
        points = [from_ms, *dict.fromkeys(cuts), to_ms]
        return list(itertools.pairwise(points))

    def _rate_before(self, end_ms: float) -> float:
        """The rate that the piece ending at `end_ms` ends with."""
        return self.rate if end_ms <= self.expires_ms else self.rate_at(end_ms)


def _solve(rate: float, slope: float, wanted: float) -> float:
    """The least t >= 0 (ms) with rate*t + slope*t*t/2 = wanted*1000; rates in bytes per second."""
    wanted *= MS_PER_S
    if slope == 0:
        return wanted / rate if rate > 0 else math.inf
    root = math.sqrt(max(0.0, rate * rate + 2 * slope * wanted))
    # This form of the quadratic's solution does not cancel when the slope is small.
    return 2 * wanted / (rate + root)
