"""Long work in steps, between which the caller may do other things.

A function that would block an event loop too long is a generator: it yields where it may be
interrupted, and returns its result. It uses neither clock nor loop; `highwater.runtime.slices`
runs it within a budget of time, `finish` at once.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

_R = TypeVar("_R")
_T = TypeVar("_T")

Steps = Generator[None, None, _R]
"""Work that may pause at each `yield`; each such function documents what may happen meanwhile."""


def in_one_step(work: Callable[[], _R]) -> Steps[_R]:
    """Makes uninterrupted work usable where steps are expected."""
    yield
    return work()


def finish(steps: Steps[_R]) -> _R:
    """Runs all steps without a pause and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _R = stop.value
            return result


def runs(values: Sequence[_T], length: int) -> Iterator[Sequence[_T]]:
    """The values in runs of that length, for work that does one in each step."""
    for start in range(0, len(values), length):
        yield values[start : start + length]
