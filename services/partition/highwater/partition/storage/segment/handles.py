"""Limits how many file descriptors and index maps are open at once.

Ten thousand replicas have far more segments than a process may have descriptors, and most of them
are not in use. Code that opens a descriptor or a map enters it here. If there are too many, those
that were not used since the last round are released. This CLOCK approximation of LRU costs one
attribute store per use, and no reordering.
"""

from collections import deque
from typing import Protocol


class Evictable(Protocol):
    """An object with a descriptor or a map that it can open again when needed."""

    pins: int
    """Users that need it open right now; it is not evicted while > 0."""
    referenced: bool
    """Set by every use, cleared when `HandleClock` passes it."""
    entered: bool
    """Whether the object is in a `HandleClock`, which alone changes this."""

    def is_open(self) -> bool:
        """False after it was released for another reason (deleted, closed)."""
        ...

    def release(self) -> None:
        """Close the descriptor or the map."""
        ...


class HandleClock:
    """The open handles of one kind. One thread owns it."""

    __slots__ = ("_ring", "capacity", "evictions")

    def __init__(self, capacity: int) -> None:
        """More than `capacity` are open only while all are pinned."""
        assert capacity > 0
        self.capacity = capacity
        self.evictions = 0
        self._ring: deque[Evictable] = deque()

    def __len__(self) -> int:
        return len(self._ring)

    def enter(self, handle: Evictable) -> None:
        """Enter a handle that was just opened; evict another one if there are too many."""
        if not handle.entered:
            handle.entered = True
            self._ring.append(handle)
        handle.referenced = True
        if len(self._ring) > self.capacity:
            self._evict(handle)

    def _evict(self, newcomer: Evictable) -> None:
        """Go round at most twice: once to clear `referenced`, once to find a handle to release."""
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
