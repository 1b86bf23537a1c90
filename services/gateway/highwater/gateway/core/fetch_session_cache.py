"""The fetch sessions of a gateway, bounded in number and memory (Kafka: `FetchSessionCacheShard`).

A new session that finds no room takes the place of one that has not been used for long, or else of
the smallest one that is not larger than itself and was not made lately. Without such a one it is not
made, and its client goes on with full fetches.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.fetch_session import SESSION_ID_MAX, FetchSession, Link

PARTITION_BYTES: Final = 1024
"""About the memory of a partition in a session, here and in a node of this process."""
SESSION_BYTES: Final = 4096
"""About the memory of a session without partitions."""
PLACES_MAX: Final = 2**31
"""A session ends when it has given out so many places, which have 32 bits on the hop. Consumers take
partitions out and in all the time, as their buffers fill and empty.
"""


class FetchSessionCache(Generic[Link]):
    """See the module. Lives as long as the gateway."""

    __slots__ = (
        "_budget",
        "_ended",
        "_evictable",
        "_eviction_ms",
        "_new_id",
        "_sessions",
        "_slots",
        "evictions",
        "partitions",
    )

    def __init__(
        self,
        *,
        slots: int,
        eviction_ms: int,
        budget: MemoryBudget,
        new_id: Callable[[int, int], int],
        ended: Callable[[FetchSession[Link]], None],
    ) -> None:
        """`slots` is max.incremental.fetch.session.cache.slots, and `eviction_ms`
        min.incremental.fetch.session.eviction.ms.

        `new_id` gives a random number between two, both included. `ended` is called with each
        session that the cache no longer has.
        """
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._budget = budget
        self._new_id = new_id
        self._ended = ended
        self._sessions: OrderedDict[int, FetchSession[Link]] = OrderedDict()
        """By id; those that were used last are last."""
        self._evictable: list[tuple[int, int]] = []
        """(size, id) of sessions that were not made lately, in order."""
        self.partitions = 0
        """Partitions of all sessions (NumIncrementalFetchPartitionsCached)."""
        self.evictions = 0
        """Sessions that were evicted so far (IncrementalFetchSessionEvictions)."""

    def __len__(self) -> int:
        """The number of sessions (NumIncrementalFetchSessions)."""
        return len(self._sessions)

    def find(self, session_id: int, owner: object) -> FetchSession[Link] | None:
        """The session if it is the client's own: neither another client's nor unknown."""
        found = self._sessions.get(session_id)
        return found if found is not None and found.owner == owner else None

    def may_open(self, size: int, now_ms: int) -> bool:
        """True if `open` would have a good chance for a session of so many partitions."""
        if len(self._sessions) < self._slots and self._fits(size):
            return True
        return self._victim(size, now_ms) is not None

    def open(self, owner: object, by_id: bool, size: int, now_ms: int) -> FetchSession[Link] | None:
        """A new session for `size` partitions, which the caller adds; None without room for it."""
        if self._nbytes(size) > self._budget.sessions_max:
            return None
        while len(self._sessions) >= self._slots or not self._fits(size):
            victim = self._victim(size, now_ms)
            if victim is None:
                return None
            self.evictions += 1
            self.remove(victim)
        session_id = self._new_id(1, SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._new_id(1, SESSION_ID_MAX)
        session = self._sessions[session_id] = FetchSession[Link](session_id, owner, by_id, now_ms)
        self._count(session, size)
        return session

    def touch(self, session: FetchSession[Link], now_ms: int) -> bool:
        """Notes that a session was used, and its size; False if it was removed, because there is no
        memory for it, or no place for another partition.
        """
        if session.next_place > PLACES_MAX:
            self.remove(session)
            return False
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        size = len(session.partitions)
        if session.nbytes != self._nbytes(size):
            grows = self._nbytes(size) - session.nbytes
            if grows > 0 and self._budget.sessions + grows > self._budget.sessions_max:
                self.remove(session)
                return False
            self._count(session, size)
        if session.evictable is None:
            if now_ms - session.created_ms > self._eviction_ms:
                session.evictable = (size, session.session_id)
                insort(self._evictable, session.evictable)
        elif session.evictable[0] != size:
            self._not_evictable(session)
            session.evictable = (size, session.session_id)
            insort(self._evictable, session.evictable)
        return True

    def remove(self, session: FetchSession[Link]) -> None:
        """Ends a session, if it is there."""
        if self._sessions.pop(session.session_id, None) is not None:
            self._not_evictable(session)
            self.partitions -= self._size(session)
            self._budget.hold_sessions(-session.nbytes)
            session.nbytes = 0
            self._ended(session)

    def _victim(self, size: int, now_ms: int) -> FetchSession[Link] | None:
        """The session that makes room for a new one of so many partitions."""
        if not self._sessions:
            return None
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > self._eviction_ms:
            return oldest
        if self._evictable and self._evictable[0][0] < size:
            return self._sessions[self._evictable[0][1]]
        return None

    def _not_evictable(self, session: FetchSession[Link]) -> None:
        if session.evictable is not None:
            del self._evictable[bisect_left(self._evictable, session.evictable)]
            session.evictable = None

    def _fits(self, size: int) -> bool:
        return self._budget.sessions + self._nbytes(size) <= self._budget.sessions_max

    def _count(self, session: FetchSession[Link], size: int) -> None:
        self.partitions += size - self._size(session)
        nbytes = self._nbytes(size)
        self._budget.hold_sessions(nbytes - session.nbytes)
        session.nbytes = nbytes

    @staticmethod
    def _nbytes(size: int) -> int:
        return SESSION_BYTES + PARTITION_BYTES * size

    @staticmethod
    def _size(session: FetchSession[Link]) -> int:
        """The partitions that are counted for the session."""
        return max(0, session.nbytes - SESSION_BYTES) // PARTITION_BYTES
