"""Long work as steps, so that whoever runs it may stop between any two of them.

A function that would hold an event loop too long is a generator: it yields where it may be
interrupted, and returns its result. It knows neither clock nor loop; `highwater.runtime.slices`
runs it within a budget of time, `finish` at once.
"""

from collections.abc import Callable, Generator
from typing import TypeVar

_R = TypeVar("_R")

Steps = Generator[None, None, _R]
"""Work that may be left alone at each `yield`; what it is owed by then is its own to say."""


def in_one_step(work: Callable[[], _R]) -> Steps[_R]:
    """Work that is not interrupted, where steps are asked for."""
    yield
    return work()


def finish(steps: Steps[_R]) -> _R:
    """Runs all steps without a pause and gives the result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _R = stop.value
            return result
