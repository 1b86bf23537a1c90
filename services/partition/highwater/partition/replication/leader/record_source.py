"""Where the rows of one leader's session get their records from, and how much they may have.

Bytes of the log; or only their place in its files, for a follower that can open them. What is not
in memory comes later (`cold_reads`), and so does what the throttle of catch-up holds back.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from highwater.partition.replication.leader.cold_reads import ColdReads
from highwater.partition.replication.leader.segment_bytes import read_in_memory
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.replication.rows import SegmentPlace
from highwater.partition.replication.throttle import HELD, Throttle
from highwater.partition.storage.log.log_slice import LogSlice

PLACE_BYTES_MIN: Final = 32 << 10
"""Records from here on are worth a place: up to here they cost a message little more than one."""


class RecordSource:
    """See the module. One session's; on the node's loop, times in milliseconds.

    The session sets `node`, `takes_places` and `now_ms` before it asks.
    """

    def __init__(
        self,
        *,
        read_bytes: Callable[[LogSlice], Any],
        throttle: Throttle,
        look_again: Callable[[SessionRow], None],
    ) -> None:
        """`read_bytes` gives a slice's bytes at once, or raises LogDirFailure."""
        self.node = -1
        """The follower."""
        self.takes_places = False
        self.now_ms = 0
        self.throttle = throttle
        self.cold = ColdReads(look_again)
        self._read_bytes = read_bytes
        self._held: deque[SessionRow] = deque()
        """Rows that the throttle holds back, longest first; `row.held` is set in them."""

    # ---- how much ----

    def limit(self, row: SessionRow, max_bytes: int) -> int:
        """How many bytes of a throttled row may go now; `HELD` if it has to wait."""
        throttle = self.throttle
        if row.key not in throttle.partitions or not row.catching_up(self.node):
            return max_bytes
        if row.held:
            return HELD
        room = throttle.room(self.now_ms)
        if not room:
            row.held = True
            throttle.holds += 1
            self._held.append(row)
            # Other rows want to read meanwhile; these stay in memory until its turn.
            self.cold.forget(row)
            return HELD
        row.throttled = True
        return min(max_bytes, room)

    def next_held(self) -> SessionRow | None:
        """A row that was held back for long enough, if the throttle has room for one."""
        held = self._held
        while held and not (held[0].held and held[0].waiting):
            held.popleft().held = False
        if not held or not self._may_go(held[0]):
            return None
        row = held.popleft()
        row.held = False
        return row

    def _may_go(self, row: SessionRow) -> bool:
        if row.key in self.throttle.partitions and row.catching_up(self.node):
            return self.throttle.room(self.now_ms) > 0
        return True

    @property
    def holds(self) -> bool:
        """Whether rows wait for the throttle."""
        return bool(self._held)

    def wait_ms(self) -> int:
        """How long until the next of them may have its turn."""
        return self.throttle.wait_ms(self.now_ms)

    # ---- what ----

    def records(self, row: SessionRow, found: LogSlice) -> memoryview | SegmentPlace | None:
        """The records, or where they lie; None while they are read. Raises LogDirFailure.

        What an in-sync follower lacks was written a moment ago, so it is in memory.
        """
        if self.takes_places and found.length >= PLACE_BYTES_MIN and not row.bytes_only:
            return _place_of(row, found)
        if not row.catching_up(self.node):
            return memoryview(self._read_bytes(found))
        if row not in self.cold:
            data = read_in_memory(found)
            if data is not None:
                return memoryview(data)
        return self.cold.take(row, found)

    def answered(self, row: SessionRow, nbytes: int) -> None:
        """The row has been answered, with so many bytes of records."""
        row.held = False
        if row.throttled:
            row.throttled = False
            self.throttle.passed(self.now_ms, nbytes)
        if self.cold:
            self.cold.forget(row)

    def forget(self, row: SessionRow) -> None:
        """The row has left the session, or was never in it."""
        row.held = False
        self.cold.forget(row)

    def close(self) -> None:
        """The session has ended."""
        self._held.clear()
        self.cold.clear()


def _place_of(row: SessionRow, found: LogSlice) -> SegmentPlace:
    replica, segment = row.replica, found.segment
    assert replica is not None
    return SegmentPlace(
        segment.path,
        replica.log_dir,
        segment.inode,
        found.position,
        found.length,
        replica.log.epochs.cache.epoch_for(found.next_offset - 1),
    )
