"""The deadlines of members: four of each, by name. They are not kept over a restart.

session: the member sends no heartbeat.
revocation: it does not give up partitions (its rebalance timeout).
join, sync: a member of the classic protocol does not send JoinGroup or SyncGroup when it should.
"""

import enum
from collections.abc import Callable

from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.values import GroupKey


class Deadline(enum.Enum):
    """See the module."""

    SESSION = "session"
    REVOCATION = "revocation"
    JOIN = "join"
    SYNC = "sync"


class MemberTimers:
    """The timers of one shard's members, in the shard's heap."""

    __slots__ = ("_heap", "_timers")

    def __init__(self, heap: TimerHeap) -> None:
        self._heap = heap
        self._timers: dict[tuple[GroupKey, str], dict[Deadline, Timer]] = {}

    def set(
        self,
        key: GroupKey,
        member_id: str,
        which: Deadline,
        deadline_ms: int,
        action: Callable[[Moment], None],
    ) -> None:
        """Set or move a deadline; `action` runs when it passes."""
        timers = self._timers.setdefault((key, member_id), {})
        timer = timers.get(which)
        if timer is None:
            timer = timers[which] = Timer(action)
        timer.action = action
        self._heap.set(timer, deadline_ms)

    def is_set(self, key: GroupKey, member_id: str, which: Deadline) -> bool:
        """Whether this deadline is ahead."""
        timer = self._timers.get((key, member_id), {}).get(which)
        return timer is not None and timer.deadline_ms is not None

    def cancel(self, key: GroupKey, member_id: str, which: Deadline) -> None:
        """Forget one deadline; harmless if it is not set."""
        timer = self._timers.get((key, member_id), {}).get(which)
        if timer is not None:
            self._heap.cancel(timer)

    def forget(self, key: GroupKey, member_id: str) -> None:
        """The member is gone."""
        for timer in self._timers.pop((key, member_id), {}).values():
            self._heap.cancel(timer)
