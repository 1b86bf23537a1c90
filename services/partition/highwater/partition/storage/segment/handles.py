"""Limits how many file descriptors and index maps are open at once.

Ten thousand replicas have far more segments than a process may have descriptors, and most of
them are cold. Whatever opens a descriptor or a map enters it here; when there are too many, the
ones that were not used since the hand last passed are released (the CLOCK approximation of LRU,
which costs a user one attribute store and no reordering).
"""

from collections import deque
from typing import Protocol


class Evictable(Protocol):
    """Something that holds a descriptor or a map and can open it again when it is needed."""

    pins: int
    """Users that rely on it being open right now; never evicted while > 0."""
    referenced: bool
    """Set by every use, cleared by the passing hand."""
    entered: bool
    """True while the object stands in a `HandleClock`; the clock alone changes it."""

    def is_open(self) -> bool:
        """False once it was released for another reason (deleted, closed)."""
        ...

    def release(self) -> None:
        """Closes the descriptor or the map."""
        ...


class HandleClock:
    """The open handles of one kind. One thread owns it."""

    __slots__ = ("_ring", "capacity", "evictions")

    def __init__(self, capacity: int) -> None:
        """`capacity` is exceeded only while everything is pinned."""
        assert capacity > 0
        self.capacity = capacity
        self.evictions = 0
        self._ring: deque[Evictable] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def enter(self, handle: Evictable) -> None:
        """Takes note of a handle that was just opened, and evicts another if it is one too many."""
        if not handle.entered:
            handle.entered = True
            self._ring.append(handle)
        handle.referenced = True
        if len(self._ring) > self.capacity:
            self._evict(handle)

    def _evict(self, newcomer: Evictable) -> None:
        """Passes the hand at most twice round: once to clear marks, once to find a victim."""
        ring = self._ring
        for _ in range(2 * len(ring)):
            handle = ring.popleft()
            if not handle.is_open():
                handle.entered = False
            elif handle is newcomer or handle.pins > 0 or handle.referenced:
                if handle is not newcomer:
                    handle.referenced = False
                ring.append(handle)
                continue
            else:
                handle.entered = False
                handle.release()
                self.evictions += 1
            if len(ring) <= self.capacity:
                return
