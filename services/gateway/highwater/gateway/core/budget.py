"""Limits the memory of a gateway's requests and replies; connections wait in turn for more."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

BEGUN_SHARE: Final = 4
"""Frames of which only a part has arrived may hold a quarter of the limit."""
BEGUN_MIN: Final = 1 << 20
REPLIES_SHARE: Final = 4
"""Replies that their clients do not read may hold a quarter."""
SESSIONS_SHARE: Final = 8
"""Fetch sessions may hold an eighth."""


class BegunFrame(Protocol):
    """Keeps the beginning of a small frame until the rest arrives."""

    def give_up_begun(self) -> None:
        """Drops it and closes its connection; the budget no longer counts it."""
        ...


class MemoryBudget:
    """Counts bytes of requests that are read and unanswered, and of unread replies.

    Small frames are only counted (`charge`). While `exhausted`, connections read less, and nothing
    more until their requests are answered, so each adds one small read. A large frame asks first
    (`reserve`); without room, its connection waits for `granted`. Beginnings of small frames
    (`hold_begun`) cannot wait, as nobody knows which clients will continue. When they hold more
    than a quarter of the limit, the oldest one is given up. If thousands of clients begin frames
    and stop, an honest client's frame is never the oldest for long.
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
        "sessions",
        "sessions_max",
        "used",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.scarce_at = limit
        """While `used` has reached this, connections read only a little."""
        self.begun = 0
        """Bytes of begun small frames; not in `used`."""
        self.begun_max = max(limit // BEGUN_SHARE, BEGUN_MIN)
        self.given_up = 0
        """Begun frames that were given up to make room."""
        self.replies = 0
        """Bytes of replies that wait to be sent; not in `used`."""
        self.replies_max = limit // REPLIES_SHARE
        self.replies_scarce = False
        self.sessions = 0
        """Bytes of fetch sessions, about; not in `used`."""
        self.sessions_max = limit // SESSIONS_SHARE
        self._on_room: list[Callable[[], None]] = []
        self._begun_by: dict[BegunFrame, int] = {}
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def exhausted(self) -> bool:
        """True while new requests should wait."""
        return self.used >= self.scarce_at

    def charge(self, nbytes: int) -> None:
        """Counts bytes that have already been read."""
        self.used += nbytes

    def reserve(self, nbytes: int, granted: Callable[[], None]) -> bool:
        """True if `nbytes` are counted now; otherwise `granted` is called once they are.

        A single frame may be larger than the whole budget if it is alone.
        """
        if not self._waiting and (self.used + nbytes <= self.scarce_at or self.used == 0):
            self.used += nbytes
            return True
        self._waiting.append((nbytes, granted))
        self.scarce_at = 0  # Reads of connections that will have to wait, too, are not counted.
        return False

    def hold_begun(self, owner: BegunFrame, nbytes: int, *, anew: bool) -> None:
        """`owner` now keeps `nbytes` of a begun frame; `anew` if it is not the same as before."""
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
        """Adds `nbytes`, which may be negative, to the replies that wait."""
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
            self.scarce_at = self.limit - self.begun - self.replies - self.sessions

    def hold_sessions(self, nbytes: int) -> None:
        """Adds `nbytes`, which may be negative, to the fetch sessions. The caller keeps them small:
        nothing waits for them.
        """
        self.sessions += nbytes
        self._grant()

    def when_replies_fit(self, call: Callable[[], None]) -> None:
        """Calls back once, as soon as replies are no longer scarce of memory."""
        self._on_room.append(call)

    def withdraw(self, granted: Callable[[], None]) -> None:
        """Forgets a reservation that still waits, because its connection closed."""
        self._waiting = deque(w for w in self._waiting if w[1] is not granted)
        self._grant()  # Smaller reservations may have waited behind it.

    def release(self, nbytes: int) -> None:
        """Gives bytes back, and grants waiting reservations in order."""
        self.used -= nbytes
        assert self.used >= 0
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        waiting = self._waiting
        room = self.limit - self.begun - self.replies - self.sessions
        while waiting:
            wanted, granted = waiting[0]
            if self.used + wanted > room and self.used > 0:
                break
            waiting.popleft()
            self.used += wanted
            granted()
        self.scarce_at = 0 if waiting else room
