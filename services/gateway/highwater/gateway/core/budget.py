"""How much memory requests may hold, per gateway; whoever wants more waits its turn."""

from collections import deque
from collections.abc import Callable


class MemoryBudget:
    """Counts bytes of requests that have been read and not yet answered.

    Small frames are only counted (`charge`), and connections read less while `exhausted`. A large
    frame asks first (`reserve`), and if there is no room its connection waits for `grant`.
    """

    __slots__ = ("_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def exhausted(self) -> bool:
        """True while new requests should wait."""
        return self.used >= self.limit

    def charge(self, nbytes: int) -> None:
        """Counts bytes that are already here."""
        self.used += nbytes

    def reserve(self, nbytes: int, granted: Callable[[], None]) -> bool:
        """True if `nbytes` are now counted; otherwise `granted` is called when they are.

        One frame may always be larger than the whole budget if it is alone.
        """
        if not self._waiting and (self.used + nbytes <= self.limit or self.used == 0):
            self.used += nbytes
            return True
        self._waiting.append((nbytes, granted))
        return False

    def withdraw(self, granted: Callable[[], None]) -> None:
        """Forgets a reservation that still waits (its connection closed)."""
        self._waiting = deque(w for w in self._waiting if w[1] is not granted)
        self._grant()  # It may have kept smaller ones behind it waiting.

    def release(self, nbytes: int) -> None:
        """Gives bytes back and lets waiting frames in, in their order."""
        self.used -= nbytes
        assert self.used >= 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            wanted, granted = self._waiting[0]
            if self.used + wanted > self.limit and self.used > 0:
                return
            self._waiting.popleft()
            self.used += wanted
            granted()
