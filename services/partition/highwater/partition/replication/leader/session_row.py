"""One partition in a leader's session: the follower's question, and what there is to answer.

Hot path: a session has thousands of rows, so plain slots are changed in place.
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
    """The source of a row's records; see `RecordSource`."""

    throttle: Throttle

    def limit(self, row: "SessionRow", max_bytes: int) -> int:
        """How many bytes a throttled row may get now; `HELD` if it has to wait."""
        ...

    def records(self, row: "SessionRow", found: LogSlice) -> memoryview | SegmentPlace | None:
        """The records, or their place in a file; None while they are read. Raises LogDirFailure."""
        ...


class SessionRow:
    """Lives from the first question about its partition until `leave`.

    After each `ask` it waits until it is answered with records, an error or a divergence; an answer
    that has only offsets does not end the wait. When its replica changes while it is `waiting`, it
    calls `notice` with itself, but only once until the session looks at it.
    """

    __slots__ = (
        "_asked_again",
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
        """`replica` is None if this node has none; then the only answer is a refusal."""
        self.asked = asked
        self.key = (asked.topic_id, asked.partition)
        self.replica = replica
        self.waiting = False
        self.noticed = False
        """Whether it is in the session's queue of rows to look at."""
        self.lingering = False
        """Whether it is in the queue of offsets that are sent unless records come first."""
        self.bytes_only = False
        """Whether the follower wants bytes, although it can open files."""
        self.held = False
        """Whether it is in the queue of rows that the throttle holds back."""
        self.throttled = False
        """Whether the records of its present answer count for the throttle."""
        self.later = False
        """It has records, but cannot be answered now; the session will look at it again."""
        self.counted_ms = NEVER_MS
        """When its question was last counted as a fetch."""
        self.refused = 0 if replica is not None else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        """Kafka's error code for the question; the question is never answered otherwise."""
        self._notice = notice
        self._diverging: tuple[int, int] | None = None
        """Where the logs diverge, if they do; valid as long as this node leads in this epoch."""
        self._told_high_watermark = NONE
        self._told_log_start = NONE
        self._asked_again = False
        """Whether the last question was for a place that had been asked for."""
        if replica is not None:
            replica.listeners += (self.changed,)

    def leave(self) -> None:
        """Leave the session and stop listening to the replica."""
        self.waiting = False
        replica = self.replica
        if replica is not None:
            replica.listeners = tuple(told for told in replica.listeners if told != self.changed)

    def changed(self, _: object = None) -> None:
        """Called by the replica: its log, high watermark or role has changed."""
        if self.waiting and not self.noticed:
            self.noticed = True
            self._notice(self)

    # ---- fetches ----

    def ask(self, asked: Asked, node: int, node_epoch: int, now_ms: int) -> None:
        """Take a question; unless refused, it says that the follower has all before its offset."""
        before, self.asked = self.asked, asked
        again = (
            asked.fetch_offset <= before.fetch_offset or asked.leader_epoch != before.leader_epoch
        )
        if again or self._asked_again:
            # The follower may not have applied the last answer, or taken only the first of two to one place.
            self._told_high_watermark = self._told_log_start = NONE
        self._asked_again = again
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
        """Count the question as a fetch at `now_ms`, unless it would be refused now."""
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
        if self.has_new_offsets:
            self.changed()

    def _progress(self, replica: PartitionReplica, node: int, now_ms: int) -> None:
        self.counted_ms = now_ms
        core = replica.core
        follower = core.followers[node]
        if follower.kept_log_start != self.asked.kept_log_start:
            replica.follower_keeps(follower, self.asked.kept_log_start)
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
        """Whether no append waits for this follower: it is not in sync, nor about to be."""
        assert self.replica is not None
        follower = self.replica.core.followers.get(node)
        return follower is not None and not (follower.in_maximal_isr or follower.near)

    @property
    def has_new_offsets(self) -> bool:
        """Whether the follower lacks the present high watermark or log start offset."""
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
        """The answer, if there is more than offsets to report; the row then waits no longer.

        None if there is nothing, if the records come later, or if `min_one_batch` is False and
        the next batch is larger than `max_bytes`. Raises StorageError if the log cannot be read.
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
        """Answer with offsets only; the row waits on. Call it only if `answer` returned None."""
        replica = self.replica
        assert replica is not None
        self._tell(replica)
        self.waiting = True
        return self._with_offsets(replica, waiting=True)

    def refusal(self, error_code: int) -> Answered:
        """Answer with an error and no offsets; the row waits no longer."""
        self.waiting = False
        return Answered(
            *self.asked.place, int(error_code), NONE, NONE, NONE, NONE, NONE, NO_RECORDS
        )

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
            *self.asked.place,
            int(error_code),
            replica.high_watermark,
            log.extent.start_offset,
            log.extent.end_offset,
            *diverging,
            records,
        )
