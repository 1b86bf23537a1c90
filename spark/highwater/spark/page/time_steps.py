"""How wide the bars of a chart over time are: so that a chart of any length has some hundred of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

STEPS_MAX: Final = 300
"""More are narrower than a dot or two of a page."""

SECONDS_MAX: Final = 221_845_392_000
"""The year 9000. Times of records may be anything, but Python has none after 9999, and steps go beyond."""

_STEPS_S: Final = (
    60, 120, 300, 600, 900, 1800,
    3600, 7200, 10_800, 21_600, 43_200,
    86_400, 2 * 86_400, 7 * 86_400, 28 * 86_400,
)  # fmt: skip
_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Equal steps without gaps; `starts` are seconds since 1970, none if there is nothing to cover."""

    step_s: int
    starts: tuple[int, ...]

    def start_of(self, second: int) -> int:
        """Returns the start of the step that a time is in."""
        return second // self.step_s * self.step_s

    @property
    def times(self) -> list[datetime]:
        """The starts as times, UTC."""
        return [datetime.fromtimestamp(start, UTC) for start in self.starts]

    @property
    def width(self) -> timedelta:
        """How long a step is."""
        return timedelta(seconds=self.step_s)

    @property
    def text(self) -> str:
        """A step in words that go on after `per`: `minute`, `15 minutes`, `day`."""
        unit, seconds = next((name, each) for name, each in _UNITS if self.step_s % each == 0)
        count = self.step_s // seconds
        return unit if count == 1 else f"{count} {unit}s"


def cover(seconds: Iterable[int], *, least_s: int) -> Steps:
    """Returns the shortest steps, of at least `least_s` seconds, that cover these times.

    There are `STEPS_MAX` of them at most. Times are from 0 to `SECONDS_MAX`.
    """
    known = list(seconds)
    if not known:
        return Steps(step_s=least_s, starts=())
    first_s, last_s = min(known), max(known)
    steps = [each for each in _STEPS_S if each >= least_s] or [least_s]
    while last_s // steps[0] - first_s // steps[0] >= STEPS_MAX:
        # Behind the last one each is twice as long as the one before.
        steps = steps[1:] or [2 * steps[0]]
    step_s = steps[0]
    return Steps(step_s=step_s, starts=tuple(range(first_s // step_s * step_s, last_s + 1, step_s)))
