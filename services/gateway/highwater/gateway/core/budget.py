"""How much memory requests and replies may hold, per gateway; whoever wants more waits its turn."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

BEGUN_SHARE: Final = 4
"""A quarter of the limit may be held by frames of which a part has arrived."""
BEGUN_MIN: Final = 1 << 20
REPLIES_SHARE: Final = 4
"""A quarter may be held by replies that their clients do not take."""


class BegunFrame(Protocol):
    """Whoever keeps the beginning of a small frame until the rest arrives."""

    def give_up_begun(self) -> None:
        """Drops it and closes its connection; the budget has forgotten it already."""
        ...


class MemoryBudget:
    """Counts bytes of requests that have been read and not yet answered, and of unread replies.

    Small frames are only counted (`charge`); while `exhausted`, connections read less, and nothing
    before what they have asked for is answered, so each adds one small read. A large frame asks
    first (`reserve`), and if there is no room its connection waits for `grant`. The beginnings of
    small frames (`hold_begun`) cannot wait, as nobody knows who will go on; when they hold more
    than a quarter of the limit, the one that was begun first is given up. Among thousands who
    begin frames and do not go on, an honest client is never that one for long.
    """

    __slots__ = (
        "_begun_by",
        "_on_room",
        "_waiting",
        "begun",
        "begun_max",
        "given_up",
        "limit",
        "replies",
        "replies_max",
        "replies_scarce",
        "scarce_at",
        "used",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.scarce_at = limit
        """Connections read only a little while `used` is here or above."""
        self.begun = 0
        """Bytes of begun small frames; not in `used`."""
        self.begun_max = max(limit // BEGUN_SHARE, BEGUN_MIN)
        self.given_up = 0
        """Begun frames that had to make room for others."""
        self.replies = 0
        """Bytes of replies that wait; not in `used`."""
        self.replies_max = limit // REPLIES_SHARE
        self.replies_scarce = False
        self._on_room: list[Callable[[], None]] = []
        self._begun_by: dict[BegunFrame, int] = {}
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def exhausted(self) -> bool:
        """True while new requests should wait."""
        return self.used >= self.scarce_at

    def charge(self, nbytes: int) -> None:
        """Counts bytes that are already here."""
        self.used += nbytes

    def reserve(self, nbytes: int, granted: Callable[[], None]) -> bool:
        """True if `nbytes` are now counted; otherwise `granted` is called when they are.

        One frame may always be larger than the whole budget if it is alone.
        """
        if not self._waiting and (self.used + nbytes <= self.scarce_at or self.used == 0):
            self.used += nbytes
            return True
        self._waiting.append((nbytes, granted))
        self.scarce_at = 0  # What those read who will have to wait as well is not counted.
        return False

    def hold_begun(self, owner: BegunFrame, nbytes: int, *, anew: bool) -> None:
        """`owner` keeps so many bytes of a begun frame; `anew` if of another one than before."""
        held = self._begun_by
        before = held.pop(owner, 0) if anew or not nbytes else held.get(owner, 0)
        if nbytes:
            held[owner] = nbytes
        self.begun += nbytes - before
        while self.begun > self.begun_max:
            oldest = next(iter(held))
            self.begun -= held.pop(oldest)
            self.given_up += 1
            oldest.give_up_begun()
        self._grant()

    def hold_replies(self, nbytes: int) -> None:
        """So many bytes more of replies wait, or fewer."""
        self.replies += nbytes
        assert self.replies >= 0
        self.replies_scarce = self.replies >= self.replies_max
        if self._on_room and not self.replies_scarce:
            waiting, self._on_room = self._on_room, []
            for call in waiting:
                call()
        if self._waiting:
            self._grant()
        else:
            self.scarce_at = self.limit - self.begun - self.replies

    def when_replies_fit(self, call: Callable[[], None]) -> None:
        """Calls back, once, as soon as replies are not scarce any more."""
        self._on_room.append(call)

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
        waiting = self._waiting
        room = self.limit - self.begun - self.replies
        while waiting:
            wanted, granted = waiting[0]
            if self.used + wanted > room and self.used > 0:
                break
            waiting.popleft()
            self.used += wanted
            granted()
        self.scarce_at = 0 if waiting else room
