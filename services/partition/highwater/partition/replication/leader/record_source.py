"""Where a leader's session takes the records of its rows from, and how many bytes a row may have.

A follower that can open the log's files gets a place in them, others get bytes. Records that are
not in memory come later (`cold_reads`), and so do those that the catch-up throttle holds back.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from highwater.partition.replication.leader.cold_reads import ColdReads
from highwater.partition.replication.leader.segment_bytes import read_in_memory
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.replication.rows import SegmentPlace
from highwater.partition.replication.throttle import HELD, Throttle
from highwater.partition.storage.log.log_slice import LogSlice

PLACE_BYTES_MIN: Final = 32 << 10
"""From this size on a place is sent; fewer bytes cost a message little more than a place."""


class RecordSource:
    """See the module. Belongs to one session, on the node's loop; times in milliseconds.

    The session sets `node`, `takes_places` and `now_ms` before it calls.
    """

    def __init__(
        self,
        *,
        read_bytes: Callable[[LogSlice], bytes],
        throttle: Throttle,
        look_again: Callable[[SessionRow], None],
    ) -> None:
        """`read_bytes` returns a slice's bytes at once, or raises LogDirFailure."""
        self.node = -1
        """The follower's node."""
        self.takes_places = False
        self.now_ms = 0
        self.throttle = throttle
        self.cold = ColdReads(look_again)
        self._read_bytes = read_bytes
        self._held: deque[SessionRow] = deque()
        """Rows that the throttle holds back, longest first; their `held` is set."""

    # ---- how much ----

    def limit(self, row: SessionRow, max_bytes: int) -> int:
        """How many bytes a throttled row may get now; `HELD` if it has to wait."""
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
            # Other rows need the memory and the reads until this row's turn comes.
            self.cold.forget(row)
            return HELD
        row.throttled = True
        return min(max_bytes, room)

    def next_held(self) -> SessionRow | None:
        """The row that was held back longest, if the throttle has room for it."""
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
        """Whether the throttle holds rows back."""
        return bool(self._held)

    def wait_ms(self) -> int:
        """How long until the next of these rows may be answered."""
        return self.throttle.wait_ms(self.now_ms)

    # ---- what ----

    def records(self, row: SessionRow, found: LogSlice) -> memoryview | SegmentPlace | None:
        """The records, or their place in a file; None while they are read. Raises LogDirFailure.

        Records that an in-sync follower lacks were written just now, so they are in memory.
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
        """Note that the row was answered, with `nbytes` of records."""
        row.held = False
        if row.throttled:
            row.throttled = False
            self.throttle.passed(self.now_ms, nbytes)
        if self.cold:
            self.cold.forget(row)

    def forget(self, row: SessionRow) -> None:
        """Forget the row: it has left the session."""
        row.held = False
        self.cold.forget(row)

    def close(self) -> None:
        """Forget all rows when the session ends."""
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
