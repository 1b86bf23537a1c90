"""One partition of a leader's session with a follower: what was asked, and what there is to answer.

Hot path: thousands of rows are in a session, so plain slots are changed in place.
"""

from collections.abc import Callable
from typing import Final, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.divergence import UNKNOWN_EPOCH
from highwater.partition.core.followers import NEVER_MS
from highwater.partition.core.replica_events import IsrDue
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.rows import NONE, Answered, Asked, SegmentPlace
from highwater.partition.replication.throttle import HELD, Throttle
from highwater.partition.storage.errors import DamagedRecordsError
from highwater.partition.storage.log.log_slice import LogSlice

NO_RECORDS: Final = memoryview(b"")
NOT_DIVERGING: Final = (NONE, NONE)


class Records(Protocol):
    """Where a row's records come from; see `RecordSource`."""

    throttle: Throttle

    def limit(self, row: "SessionRow", max_bytes: int) -> int:
        """How many bytes of a throttled row may go now; `HELD` if it has to wait."""
        ...

    def records(self, row: "SessionRow", found: LogSlice) -> memoryview | SegmentPlace | None:
        """The records, or where they lie; None while they are read. Raises LogDirFailure."""
        ...


class SessionRow:
    """From the first time that a partition is asked for until `leave`.

    It waits from each `ask` on, until it is answered with records, an error or a divergence; an
    answer that only tells offsets lets it wait on. While `waiting`, it has the replica tell it
    that something changed, and `notice` is called with the row once until it is looked at.
    """

    __slots__ = (
        "_notice",
        "_diverging",
        "_told_high_watermark",
        "_told_log_start",
        "asked",
        "bytes_only",
        "counted_ms",
        "held",
        "key",
        "later",
        "lingering",
        "noticed",
        "refused",
        "replica",
        "throttled",
        "waiting",
    )

    def __init__(
        self,
        asked: Asked,
        replica: PartitionReplica | None,
        notice: "Callable[[SessionRow], None]",
    ) -> None:
        """`replica` is None if there is none on this node, which is all there is to answer."""
        self.asked = asked
        self.key = (asked.topic_id, asked.partition)
        self.replica = replica
        self.waiting = False
        self.noticed = False
        """Is among those that the session will look at."""
        self.lingering = False
        """Is among those whose offsets will be told if no records come first."""
        self.bytes_only = False
        """The follower wants bytes, though it can open files."""
        self.held = False
        """Is among those that the throttle holds back."""
        self.throttled = False
        """The records that it is answered with now count for the throttle."""
        self.later = False
        """There are records for it, but not now; it will be looked at again."""
        self.counted_ms = NEVER_MS
        """When its place was last counted as a fetch."""
        self.refused = 0 if replica is not None else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        """Kafka's error code for what was asked, for good."""
        self._notice = notice
        self._diverging: tuple[int, int] | None = None
        """Where the logs diverge, if they do; it holds as long as this node leads in this epoch."""
        self._told_high_watermark = NONE
        self._told_log_start = NONE
        if replica is not None:
            replica.listeners += (self.changed,)

    def leave(self) -> None:
        """Out of the session: the replica is not listened to any more."""
        self.waiting = False
        replica = self.replica
        if replica is not None:
            replica.listeners = tuple(told for told in replica.listeners if told != self.changed)

    def changed(self, _: object = None) -> None:
        """The log has grown, the high watermark moved, or the role changed (a listener)."""
        if self.waiting and not self.noticed:
            self.noticed = True
            self._notice(self)

    # ---- fetches ----

    def ask(self, asked: Asked, node: int, node_epoch: int, now_ms: int) -> None:
        """The follower has everything before this place; of a refused one nothing is counted."""
        before, self.asked = self.asked, asked
        if asked.fetch_offset <= before.fetch_offset or asked.leader_epoch != before.leader_epoch:
            # The last answer may not have been carried out.
            self._told_high_watermark = self._told_log_start = NONE
        self.waiting = True
        replica = self.replica
        if replica is None:
            return
        self.refused = replica.core.refuse_follower(node, node_epoch, asked.leader_epoch)
        if self.refused:
            return
        log, offset = replica.log, asked.fetch_offset
        self._diverging = replica.core.divergence(offset, asked.last_fetched_epoch)
        if self._diverging is None and offset >= log.extent.start_offset:
            self._progress(replica, node, now_ms)

    def count(self, node: int, node_epoch: int, now_ms: int) -> None:
        """Counts the place as a fetch that came at `now_ms`, unless it would be refused by now."""
        replica = self.replica
        if replica is None or self.refused:
            return
        asked = self.asked
        if (
            self._diverging is not None
            or asked.fetch_offset < replica.log.extent.start_offset
            or replica.core.refuse_follower(node, node_epoch, asked.leader_epoch)
        ):
            self.changed()
            return
        self._progress(replica, node, now_ms)
        if self.untold:
            self.changed()

    def _progress(self, replica: PartitionReplica, node: int, now_ms: int) -> None:
        self.counted_ms = now_ms
        core = replica.core
        follower = core.followers[node]
        replica.moved(core.follower_fetched(follower, self.asked.fetch_offset, now_ms))
        if core.isr_due:
            replica.handle(IsrDue())

    # ---- answers ----

    @property
    def behind(self) -> bool:
        """True if the leader has records that the follower lacks."""
        replica = self.replica
        return replica is not None and self.asked.fetch_offset < replica.log.extent.end_offset

    def catching_up(self, node: int) -> bool:
        """True if nobody waits for this follower: it is not in sync, nor just about to be."""
        assert self.replica is not None
        follower = self.replica.core.followers.get(node)
        return follower is not None and not (follower.in_maximal_isr or follower.near)

    @property
    def untold(self) -> bool:
        """True if the follower was not told the present high watermark or log start offset."""
        replica = self.replica
        return replica is not None and (
            self._told_high_watermark != replica.high_watermark
            or self._told_log_start != replica.log.extent.start_offset
        )

    def answer(
        self,
        node: int,
        node_epoch: int,
        max_bytes: int,
        min_one_batch: bool,
        source: Records,
    ) -> Answered | None:
        """What there is to tell beside offsets; the row then waits no longer. None if nothing.

        Nothing, too, if `min_one_batch` is False and the next batch is larger than `max_bytes`,
        or if the records come later. Raises StorageError if the log cannot be read.
        """
        self.later = self.throttled = False
        replica, asked = self.replica, self.asked
        if replica is None or self.refused:
            return self.refusal(self.refused)
        refused = replica.core.refuse_follower(node, node_epoch, asked.leader_epoch)
        if refused:
            return self.refusal(refused)
        log = replica.log
        offset = asked.fetch_offset
        if offset < log.extent.start_offset or self._diverging == UNKNOWN_EPOCH:
            return self._with_offsets(replica, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._diverging is not None:
            return self._with_offsets(replica, diverging=self._diverging)
        end = log.extent.end_offset
        if offset >= end:
            return None
        if source.throttle.partitions:
            max_bytes = source.limit(self, max_bytes)
            if max_bytes == HELD:
                self.later = True
                return None
        try:
            found = log.reader.read(offset, max_bytes, end_offset=end, min_one_batch=min_one_batch)
        except DamagedRecordsError:
            return self.refusal(ErrorCode.CORRUPT_MESSAGE)
        if found is None:
            return None
        records = source.records(self, found)
        if records is None:
            self.later = True
            return None
        self._tell(replica)
        return self._with_offsets(replica, records=records)

    def offsets(self) -> Answered:
        """Tells the offsets alone; the row waits on. Only after `answer` had nothing to tell."""
        replica = self.replica
        assert replica is not None
        self._tell(replica)
        self.waiting = True
        return self._with_offsets(replica, waiting=True)

    def refusal(self, error_code: int) -> Answered:
        """Tells an error, and no offset; the row waits no longer."""
        self.waiting = False
        return Answered(*self.asked, int(error_code), NONE, NONE, NONE, NONE, NONE, NO_RECORDS)

    def _tell(self, replica: PartitionReplica) -> None:
        self._told_high_watermark = replica.high_watermark
        self._told_log_start = replica.log.extent.start_offset

    def _with_offsets(
        self,
        replica: PartitionReplica,
        *,
        error_code: int = 0,
        diverging: tuple[int, int] = NOT_DIVERGING,
        records: memoryview | SegmentPlace = NO_RECORDS,
        waiting: bool = False,
    ) -> Answered:
        self.waiting = waiting
        log = replica.log
        return Answered(
            *self.asked,
            int(error_code),
            replica.high_watermark,
            log.extent.start_offset,
            log.extent.end_offset,
            *diverging,
            records,
        )
