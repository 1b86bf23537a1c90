"""Measures how long a coroutine keeps the loop: the time of its steps, not what it waits for."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class LoopTime:
    """A clock that runs during the steps of one coroutine."""

    __slots__ = ("_begun_ns", "_clock_ns", "_spent_ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        """`clock_ns` is a monotonic clock."""
        self._clock_ns = clock_ns
        self._spent_ns = 0
        self._begun_ns: int | None = None

    def begin(self) -> None:
        """A step begins."""
        self._begun_ns = self._clock_ns()

    def end(self) -> None:
        """It ends."""
        self._spent_ns = self.spent_ns()
        self._begun_ns = None

    def spent_ns(self) -> int:
        """The time of all steps so far, also of the one that has not ended."""
        running_ns = 0 if self._begun_ns is None else self._clock_ns() - self._begun_ns
        return self._spent_ns + running_ns


async def timed(make: Callable[[], Coroutine[Any, Any, _T]], time: LoopTime) -> _T:
    """Runs the coroutine that `make` returns, with `time` running during its steps."""
    return await _Steps(make(), time)


class _Steps(Awaitable[_T], Generic[_T]):
    """Passes everything between the loop and the coroutine, and works the clock in between."""

    def __init__(self, coroutine: Coroutine[Any, Any, _T], time: LoopTime) -> None:
        self._coroutine = coroutine
        self._time = time

    def __await__(self) -> Generator[Any, Any, _T]:
        coroutine, time = self._coroutine, self._time
        value: Any = None
        error: BaseException | None = None
        while True:
            time.begin()
            try:
                waits_for = coroutine.send(value) if error is None else coroutine.throw(error)
            except StopIteration as stop:
                result: _T = stop.value
                return result
            finally:
                time.end()
            value = error = None
            try:
                value = yield waits_for
            except BaseException as raised:  # noqa: BLE001 - the coroutine's, also a cancellation.
                error = raised
