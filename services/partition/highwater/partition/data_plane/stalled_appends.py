"""Appends to one partition whose log directory hangs: in order, one write at a time.

The replica creates the queue with the first group for a stalled directory, and keeps it while a
group is being written or waits. When it is empty, the replica writes directly again.
"""

from collections import deque

from highwater.hop.append import AppendGroup, Failure
from highwater.partition.storage.log.stall import StallMonitor


class StalledAppends:
    """The group in hand and those behind it. The replica finishes each, or it fails here."""

    __slots__ = ("_in_hand", "_stall", "_waiting")

    def __init__(self, stall: StallMonitor) -> None:
        """`stall` is the directory's; it limits waiting bytes there, over all partitions."""
        self._stall = stall
        self._waiting: deque[AppendGroup] = deque()
        self._in_hand: AppendGroup | None = None

    def __len__(self) -> int:
        """Groups that are not finished."""
        return len(self._waiting) + (self._in_hand is not None)

    def add(self, group: AppendGroup) -> bool:
        """Queues a group; False if too many bytes wait already."""
        if not self._stall.admit(group.nbytes):
            return False
        self._waiting.append(group)
        return True

    def take(self) -> AppendGroup | None:
        """The next group to append, if one waits; finishes the former one."""
        self.finish()
        if self._waiting:
            self._in_hand = self._waiting.popleft()
        return self._in_hand

    def finish(self) -> None:
        """The group in hand is done; releases its bytes."""
        if self._in_hand is not None:
            self._stall.leave(self._in_hand.nbytes)
            self._in_hand = None

    def fail(self, in_hand: Failure, waiting: Failure) -> None:
        """Ends all groups: `in_hand` for the one that may be in the log, `waiting` for the others.

        Completed groups are left alone.
        """
        groups, self._waiting = self._waiting, deque()
        first = self._in_hand
        self.finish()
        for group in groups:
            self._stall.leave(group.nbytes)
        if first is not None and not first.completed:
            first.fail(in_hand)
        for group in groups:
            group.fail(waiting)
