"""The largest rate that a stream keeps up with: the same steps for every broker, and when lag grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

STEP = 1.25
"""From one rate to the next."""
STEPS_UP_MAX = 24
STEPS_DOWN_MAX = 12
GROWTH_MAX = 0.1
"""Of what comes, so much may stay behind: a batch more or less is not growth."""
SENT_MIN = 0.95
"""A generator that sent less of what it should have sent shows that the machine carries no more."""


class NeverSteady(RuntimeError):
    """Lag grows even at the lowest rate."""


def rate_of(step: int, first_rate: float) -> int:
    """Records a second at a step; step 0 has `first_rate`, negative ones have less."""
    return max(1, round(first_rate * STEP**step))


def is_steady(
    lags: Sequence[int], *, rate: float, seconds: float, growth_max: float = GROWTH_MAX
) -> bool:
    """Whether lag grew by at most `growth_max` of what came, from the second third to the last.

    `lags` (records) were taken evenly over `seconds` of one rate. They go up and down with each batch, so
    the largest of each third is compared. The first third is for warming up.
    """
    third = len(lags) // 3
    if third == 0:
        raise ValueError(f"{len(lags)} samples are too few")
    before, after = max(lags[third : 2 * third]), max(lags[-third:])
    return after - before <= growth_max * rate * seconds / 3


def climb(start: int, is_steady_at: Callable[[int], bool], *, top: int = STEPS_UP_MAX) -> int:
    """The largest steady step, up from `start`, or down if that is too much. Raises NeverSteady."""
    if is_steady_at(start):
        step = start
        while step < top and is_steady_at(step + 1):
            step += 1
        return step
    for step in range(start - 1, start - 1 - STEPS_DOWN_MAX, -1):
        if is_steady_at(step):
            return step
    raise NeverSteady(f"not at step {start - STEPS_DOWN_MAX} either")
