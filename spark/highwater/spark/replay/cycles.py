"""A sample of a few days as a log of any length: the same distribution over new days.

The first cycle is the sample itself. Each one after it covers the next days, as many as the sample
does. It draws for each hour as many lines as the sample has in that hour, from the lines of that
hour, with replacement: counts by hour stay, and shares of paths, clients, sizes and status codes
are the sample's, while no two cycles are equal. Equal seeds give equal logs, byte for byte.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import count, groupby
from typing import Final

from highwater.spark.replay.sample import LogLine, at_time

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def scaled(sample: Sequence[LogLine], *, size_bytes: int, seed: int) -> Iterator[LogLine]:
    """Yields lines in the order of their times while their values are `size_bytes` at most in sum.

    `sample` is in the order of its times and not empty. Memory is that of the sample.
    """
    left = size_bytes
    for number in count():
        for line in cycle(sample, number, seed):
            left -= len(line.value)
            if left < 0:
                return
            yield line


def cycle(sample: Sequence[LogLine], number: int, seed: int) -> Iterator[LogLine]:
    """Yields the lines of one cycle; number 0 is the sample itself."""
    if number == 0:
        yield from sample
        return
    shift_ms = number * period_ms(sample)
    for hour, group in groupby(sample, key=lambda line: line.time_ms // HOUR_MS):
        lines = tuple(group)
        # One generator an hour: what an hour draws does not depend on how much others drew.
        draw = random.Random(f"{seed}:{number}:{hour}")
        drawn = sorted(draw.choices(lines, k=len(lines)), key=lambda line: line.time_ms)
        for line in drawn:
            yield at_time(line, line.time_ms + shift_ms)


def period_ms(sample: Sequence[LogLine]) -> int:
    """Returns the whole days (UTC) that the sample touches, in ms."""
    first, last = sample[0].time_ms // DAY_MS, sample[-1].time_ms // DAY_MS
    return (last - first + 1) * DAY_MS


def starting_at(lines: Iterator[LogLine], first_ms: int, start_ms: int) -> Iterator[LogLine]:
    """Yields the lines with all times moved so that `first_ms` becomes `start_ms`."""
    for line in lines:
        yield at_time(line, line.time_ms - first_ms + start_ms)
