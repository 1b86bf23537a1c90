"""One loop turn: sends on all gathered work once, then each touched connection writes once."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

NS_PER_MS: Final = 1_000_000

STARTS_MAX: Final = 512
"""Requests of all connections that may start before a turn, in reads, and as many again in the turn itself.

A read of a single frame starts it in any case: each connection has only one of those. Requests take
5 to 60 us each, so that the loop serves everybody else again after some tens of milliseconds.
"""

SESSION_STARTS_MAX: Final = 128
"""Requests of one connection among them (decision 27); producers have 5 to 100 in flight."""

SESSION_SHARE_MIN: Final = 16
"""A session that continues may start this many, however many others wait, as long as the turn lasts."""


class Continuable(Protocol):
    """A session with whole frames that wait for another turn."""

    def go_on(self, starts_max: int) -> None:
        """Starts some of them, and takes their number from the turn's `starts_left`."""
        ...


class Flushable(Protocol):
    """A session with replies that may be ready."""

    def flush(self) -> None:
        """Hands ready replies to the writer."""
        ...


class Turn:
    """Defers work to the end of the loop turn: first gathered appends, then replies.

    Group commit comes from here: all Produce requests that one turn reads become one append per
    partition, and their replies one write per connection (measured: twice the small requests).
    """

    __slots__ = (
        "_armed",
        "_call_soon",
        "_continued",
        "_sessions",
        "_work",
        "arrived_ns",
        "clock_ns",
        "now_ns",
        "starts_left",
        "when_flushed",
    )

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], clock_ns: Callable[[], int]
    ) -> None:
        """`clock_ns` is a monotonic clock."""
        self._call_soon = call_soon
        self.clock_ns = clock_ns
        self.arrived_ns = 0
        """When this turn first read; 0 before that."""
        self.now_ns = 0
        """When the replies of this turn leave; the clock is read once per turn."""
        self.starts_left = STARTS_MAX
        """Requests that may start until the turn ends; sessions take from it, never below 0."""
        self.when_flushed: Callable[[int], None] = _ignore
        """Called with `now_ns` when all touched sessions have been flushed."""
        self._work: list[Callable[[], None]] = []
        self._sessions: list[Flushable] = []
        self._continued: deque[Continuable] = deque()
        self._armed = False

    def begin(self) -> int:
        """Reads the clock; the time is `arrived_ns` for everything that this turn reads."""
        self.arrived_ns = now_ns = self.clock_ns()
        if not self._armed:  # The turn has to end, or the next one would reuse its time.
            self._armed = True
            self._call_soon(self._run)
        return now_ns

    def defer(self, work: Callable[[], None]) -> None:
        """Runs `work` at the end of this turn, before replies are written."""
        self._work.append(work)
        if not self._armed:
            self._armed = True
            self._call_soon(self._run)

    def settle(self) -> None:
        """Runs the work that was deferred so far now; replies leave at the end of the turn."""
        work, self._work = iter(self._work), []
        try:
            for run in work:
                run()
        except Exception as error:  # noqa: BLE001 - not of the caller, who reads another connection.
            self._call_soon(partial(_raise, error))
        finally:
            self._work[:0] = work

    def flush_later(self, session: Flushable) -> None:
        """Lets `session` write at the end of this turn."""
        self._sessions.append(session)
        if not self._armed:
            self._armed = True
            self._call_soon(self._run)

    def continue_later(self, session: Continuable) -> None:
        """Lets `session` continue in a later turn, behind earlier callers.

        A session may have only one entry at a time, and checks that itself.
        """
        self._continued.append(session)
        if not self._armed:
            self._armed = True
            self._call_soon(self._run)

    def _run(self) -> None:
        work: Iterator[Callable[[], None]] = iter(())
        sessions: Iterator[Flushable] = iter(())
        self.starts_left = STARTS_MAX
        try:
            if self._continued:
                # First, so that their appends are gathered with the rest of this turn.
                self._continue_some()
            while self._work or self._sessions:
                work, self._work = iter(self._work), []
                for run in work:
                    run()
                if self._sessions:
                    self.now_ns = self.clock_ns()
                    sessions, self._sessions = iter(self._sessions), []
                    try:
                        for session in sessions:
                            session.flush()
                    finally:
                        self.when_flushed(self.now_ns)
        finally:
            self.arrived_ns = 0
            self.starts_left = STARTS_MAX
            # After an exception, the rest runs in the next turn: nothing else would wake it.
            self._work[:0] = work
            self._sessions[:0] = sessions
            self._armed = False
            if self._work or self._sessions or self._continued:
                self._armed = True
                self._call_soon(self._run)

    def _continue_some(self) -> None:
        """Shares what the turn may start among the sessions that wait, each of them once at most."""
        waiting = len(self._continued)
        share = min(SESSION_STARTS_MAX, max(SESSION_SHARE_MIN, STARTS_MAX // waiting))
        for _ in range(waiting):
            if not self.starts_left:
                break
            self._continued.popleft().go_on(min(share, self.starts_left))


def _raise(error: Exception) -> None:
    """For the loop, which reports it."""
    raise error


def _ignore(_now_ns: int) -> None:
    """The default of `when_flushed`."""
