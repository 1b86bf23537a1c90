"""Who may use a connection's TLS engine now: the loop, or one thread.

state   what happens        next
free    `lend`              lent: neither loop nor another thread touches the engine
lent    the thread is done  free: the borrower takes the result, then `on_back` is called
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Threads(Protocol):
    """The call of a pool that this module uses."""

    def run(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Calls `done` on the loop with what `work` gives, or the exception that it raises."""
        ...


class TlsLoan:
    """See the module. Lives as long as its connection, and until the thread is done."""

    __slots__ = ("_on_back", "free")

    def __init__(self, on_back: Callable[[], None]) -> None:
        self.free = True
        self._on_back = on_back

    def lend(
        self,
        threads: Threads,
        work: Callable[[], Result],
        done: Callable[[Result | Exception], None],
    ) -> None:
        """Has a thread do `work`. Only while free."""
        assert self.free

        def back(result: Result | Exception) -> None:
            self.free = True
            done(result)
            self._on_back()

        self.free = False
        threads.run(work, back)
