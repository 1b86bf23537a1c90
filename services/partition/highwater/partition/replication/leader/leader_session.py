"""The leader's side of one Replicate stream: one follower node's requests, and their answers.

Sans-IO: time, timers and reads of segments are arguments; requests come in by `receive`, answers go
out by `answer`. Single owner, on the node's loop.

One request is under way at a time. It is answered at the end of the loop turn in which a partition
got records, an error, or a divergence to report. A high watermark or log start offset that the
follower does not know yet waits up to `HW_LINGER_MS`, to be sent with records. If there is nothing
to report, an empty answer is sent after the request's max_wait_ms, or when the next request comes.
Partitions are answered in the order in which they got something to report, so one that found no
room is first in the next answer. A partition is skipped while the throttle holds it back, or while
its records are read from disk (`record_source`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.time import CallLater, Timer
from highwater.partition.core.followers import NEVER_MS
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.codec import FollowerRequest
from highwater.partition.replication.leader.record_source import RecordSource
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.replication.rows import Answered, Asked
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.log.log_slice import LogSlice

ANSWER_BYTES_MAX: Final = 8 << 20
"""Bytes of records in one answer; one larger batch is sent alone."""
PARTITION_BYTES_MAX: Final = 1 << 20
"""Bytes of records of one partition in one answer; the loop stands still while they are read."""
ANSWER_ROWS_MAX: Final = 4096
"""Partitions in one answer, for the same reason."""
SESSION_ROWS_MAX: Final = 100_000
QUEUED_ROWS_MAX: Final = 2 * SESSION_ROWS_MAX
"""Limit of a queue: rows that left the session stay in it until their turn comes."""
MAX_WAIT_MS_MAX: Final = 10_000
HW_LINGER_MS: Final = 20
SIGN_OF_LIFE_MS: Final = 500
"""A request counts as a fetch of all waiting partitions if none has counted so for this time."""
COUNTED_AT_ONCE: Final = 1000
"""Partitions counted in one turn of the loop."""
ASKED_AT_ONCE: Final = 1000
"""Partitions of one request that are handled in one loop turn: about 10 ms."""

Key = tuple[TopicId, int]


class LeaderSession:
    """See the module. Lives from the beginning of a stream until `close`; times in milliseconds.

    It sees the cluster as its node does: the replicas decide who may fetch in which epoch.
    """

    def __init__(
        self,
        replicas: Mapping[Key, PartitionReplica],
        *,
        now_ms: Callable[[], int],
        call_later: CallLater,
        call_soon: Callable[[Callable[[], None]], object],
        read_bytes: Callable[[LogSlice], bytes],
        unreadable: Callable[[PartitionReplica, Exception], object],
        answer: Callable[[int, list[Answered]], None],
        broken: Callable[[Exception], None],
        throttle: Throttle | None = None,
        traffic: ReplicaTraffic | None = None,
    ) -> None:
        """`replicas` is the node's live table; `now_ms` is the replicas' monotonic clock.

        `call_soon` calls after everything that is ready now. `read_bytes` returns a slice's bytes or raises LogDirFailure.
        `unreadable` takes a replica offline if its log cannot be read or its code has a bug.
        `answer(request_id, rows)` sends; `broken` gets an unforeseen error, which ends the stream.
        `throttle` is the node's for leaders, `traffic` counts what is sent.
        """
        self._replicas = replicas
        self._now_ms = now_ms
        self._call_later = call_later
        self._call_soon = call_soon
        self._source = RecordSource(
            read_bytes=read_bytes,
            throttle=throttle or Throttle(Side.LEADER),
            look_again=SessionRow.changed,
        )
        self._traffic = traffic or ReplicaTraffic()
        self._unreadable = unreadable
        self._answer = answer
        self._broken = broken
        self._node = -1
        self._node_epoch = -1
        self._rows: dict[Key, SessionRow] = {}
        self._noticed: deque[SessionRow] = deque()
        """Rows that may have something to report, longest first; their `noticed` is set."""
        self._lingering: deque[tuple[int, SessionRow]] = deque()
        """(since when, row) of rows with unsent offsets; their `lingering` is set."""
        self._uncounted: deque[SessionRow] = deque()
        """Rows for which the last sign of life is not counted yet."""
        self._unasked: deque[tuple[Asked, bool]] = deque()
        """Questions not handled yet, and whether the follower wants bytes."""
        self._life_ms = NEVER_MS
        self._request_id = 0
        self._under_way = False
        self._deadline_ms = 0
        self._max_bytes = 0
        self._partition_max_bytes = 0
        self._scheduled = False
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._closed = False

    def __len__(self) -> int:
        """How many partitions are in the session."""
        return len(self._rows)

    @property
    def under_way(self) -> bool:
        """Whether a request waits for its answer."""
        return self._under_way

    # ---- requests ----

    def receive(self, request: FollowerRequest) -> None:
        """Take the next request. Raises HopFramingError if it breaks the session's rules."""
        if self._closed:
            return
        now_ms = self._now_ms()
        if self._under_way:
            self._answer_with(self._answers(now_ms))
        self._begin(request, now_ms)
        if request.forgotten:
            self._forget(request.forgotten)
        self._take_asked(request, now_ms)
        if max(len(self._rows), len(self._unasked)) > SESSION_ROWS_MAX:
            raise HopFramingError(f"more than {SESSION_ROWS_MAX} partitions in one session")
        if now_ms - self._life_ms >= SIGN_OF_LIFE_MS and not self._uncounted:
            self._life_ms = now_ms
            self._uncounted.extend(self._rows.values())
            self._count()
        if len(self._noticed) > QUEUED_ROWS_MAX or len(self._lingering) > QUEUED_ROWS_MAX:
            self._drop_idle()
        self._schedule()

    def _begin(self, request: FollowerRequest, now_ms: int) -> None:
        if request.request_id != self._request_id + 1:
            raise HopFramingError(f"request {request.request_id} came after {self._request_id}")
        if self._request_id and request.node_id != self._node:
            raise HopFramingError(f"node {request.node_id} on the stream of node {self._node}")
        if len(request.asked) > SESSION_ROWS_MAX:
            raise HopFramingError(f"{len(request.asked)} partitions in one request")
        if request.node_epoch != self._node_epoch:
            # With a new node epoch the replicas forget the node's fetch offsets.
            self._life_ms = NEVER_MS
            self._uncounted.clear()
        self._node = request.node_id
        self._node_epoch = request.node_epoch
        self._request_id = request.request_id
        self._under_way = True
        self._deadline_ms = now_ms + min(request.max_wait_ms, MAX_WAIT_MS_MAX)
        self._source.node = request.node_id
        self._source.takes_places = request.accepts_references
        self._max_bytes = min(request.max_bytes, ANSWER_BYTES_MAX)
        self._partition_max_bytes = min(request.partition_max_bytes, PARTITION_BYTES_MAX)

    def _forget(self, forgotten: Iterable[Key]) -> None:
        gone = frozenset(forgotten)
        if self._unasked:
            self._unasked = deque(one for one in self._unasked if one[0][:2] not in gone)
        for key in gone:
            row = self._rows.pop(key, None)
            if row is not None:
                self._leave(row)

    def _leave(self, row: SessionRow) -> None:
        row.leave()
        self._source.forget(row)

    def _take_asked(self, request: FollowerRequest, now_ms: int) -> None:
        """Handle the questions in order, at most `ASKED_AT_ONCE` in one loop turn."""
        bytes_only = frozenset(request.bytes_only)
        if not self._unasked and len(request.asked) <= ASKED_AT_ONCE:
            for asked in request.asked:
                self._ask(asked, bool(bytes_only) and asked[:2] in bytes_only, now_ms)
            return
        scheduled = bool(self._unasked)
        self._unasked.extend([(asked, asked[:2] in bytes_only) for asked in request.asked])
        if not scheduled:
            self._ask_some()

    def _ask_some(self) -> None:
        now_ms = self._now_ms()
        unasked = self._unasked
        for _ in range(min(len(unasked), ASKED_AT_ONCE)):
            asked, bytes_only = unasked.popleft()
            self._ask(asked, bytes_only, now_ms)
        if unasked:
            self._call_soon(self._ask_some)

    def _ask(self, asked: Asked, bytes_only: bool, now_ms: int) -> None:
        key = (asked.topic_id, asked.partition)
        replica = self._replicas.get(key)
        row = self._rows.get(key)
        if row is not None and (row.replica is not replica or replica is None):
            self._leave(row)
            row = None
        if row is None:
            row = self._rows[key] = SessionRow(asked, replica, self._notice)
        row.bytes_only = bytes_only
        try:
            row.ask(asked, self._node, self._node_epoch, now_ms)
        except Exception as error:  # noqa: BLE001 - one partition's bug, not the session's.
            self._fail(row, error)
        row.changed()

    def _count(self) -> None:
        """Count the sign of life for some rows now, and for the others in later loop turns."""
        uncounted = self._uncounted
        for _ in range(min(len(uncounted), COUNTED_AT_ONCE)):
            row = uncounted.popleft()
            if row.waiting and row.counted_ms < self._life_ms:
                try:
                    row.count(self._node, self._node_epoch, self._life_ms)
                except Exception as error:  # noqa: BLE001 - as in `_ask`.
                    self._fail(row, error)
                    row.changed()
        if uncounted:
            self._call_soon(self._count)

    def _drop_idle(self) -> None:
        """Remove rows that do not wait from the queues."""
        for row in self._noticed:
            row.noticed = row.waiting
        self._noticed = deque(row for row in self._noticed if row.waiting)
        for _, row in self._lingering:
            row.lingering = row.waiting
        self._lingering = deque(item for item in self._lingering if item[1].waiting)

    def _fail(self, row: SessionRow, error: Exception) -> None:
        """Take the partition offline; with an I/O error its directory, too."""
        row.refused = int(ErrorCode.KAFKA_STORAGE_ERROR)
        if row.replica is not None:
            self._unreadable(row.replica, error)

    # ---- answers ----

    def _notice(self, row: SessionRow) -> None:
        self._noticed.append(row)
        self._schedule()

    def _schedule(self) -> None:
        if self._under_way and not self._scheduled:
            self._scheduled = True
            self._call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._scheduled = False
        if self._closed or not self._under_way:
            return
        try:
            now_ms = self._now_ms()
            answered = self._answers(now_ms)
            if answered or now_ms >= self._deadline_ms:
                self._answer_with(answered)
            else:
                self._arm(now_ms)
        except Exception as error:  # noqa: BLE001 - otherwise the error would be lost.
            self.close()
            self._broken(error)

    def _answer_with(self, answered: list[Answered]) -> None:
        self._under_way = False
        self._answer(self._request_id, answered)

    def _answers(self, now_ms: int) -> list[Answered]:
        answered: list[Answered] = []
        left = self._max_bytes
        first = True
        noticed, source = self._noticed, self._source
        source.now_ms = now_ms
        while len(answered) < ANSWER_ROWS_MAX:
            if noticed:
                row = noticed.popleft()
                row.noticed = False
            elif not source.holds or (held := source.next_held()) is None:
                break
            else:
                row = held
            if not row.waiting:
                continue
            told = self._look(row, min(left, self._partition_max_bytes), first)
            if told is not None:
                answered.append(told)
                nbytes = len(told.records)
                left -= nbytes
                first = first and not nbytes
                source.answered(row, nbytes)
            elif row.later:
                continue
            elif row.behind and not first:
                # Its next batch does not fit, so the row is first in the next answer.
                row.noticed = True
                noticed.appendleft(row)
                break
            elif row.has_new_offsets and not row.lingering:
                row.lingering = True
                self._lingering.append((now_ms, row))
        self._tell_offsets(answered, now_ms)
        if not first:
            self._traffic.sent(self._node, self._max_bytes - left)
        return answered

    def _look(self, row: SessionRow, max_bytes: int, first: bool) -> Answered | None:
        """A waiting row's answer, offsets aside; an error removes the row from the session."""
        if self._replicas.get(row.key) is not row.replica:
            told: Answered | None = row.refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            try:
                told = row.answer(
                    self._node, self._node_epoch, max(max_bytes, 0), first, self._source
                )
            except Exception as error:  # noqa: BLE001 - as in `_ask`.
                self._fail(row, error)
                told = row.refusal(row.refused)
        if told is not None and told.error_code:
            self._leave(row)
            if self._rows.get(row.key) is row:
                del self._rows[row.key]
        return told

    def _tell_offsets(self, answered: list[Answered], now_ms: int) -> None:
        """Add rows whose offsets have waited long enough for records."""
        lingering = self._lingering
        while (
            lingering
            and lingering[0][0] + HW_LINGER_MS <= now_ms
            and len(answered) < ANSWER_ROWS_MAX
        ):
            _, row = lingering.popleft()
            row.lingering = False
            # A noticed row is looked at again: it has more to report, or lingers anew.
            if row.waiting and not row.noticed and row.has_new_offsets:
                answered.append(row.offsets())

    # ---- time ----

    def _arm(self, now_ms: int) -> None:
        """Set one timer, for the earliest time at which there may be something to report."""
        at_ms = self._deadline_ms
        if self._lingering:
            at_ms = min(at_ms, self._lingering[0][0] + HW_LINGER_MS)
        if self._source.holds:
            at_ms = min(at_ms, now_ms + self._source.wait_ms())
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._call_later(max(at_ms - now_ms, 1) / 1000, self._expired)

    def _expired(self) -> None:
        self._timer = None
        self._end_of_turn()

    def close(self) -> None:
        """End with the stream: nothing is answered any more, and no replica has a listener here."""
        self._closed = True
        self._under_way = False
        for row in self._rows.values():
            row.leave()
        self._rows.clear()
        self._noticed.clear()
        self._lingering.clear()
        self._uncounted.clear()
        self._unasked.clear()
        self._source.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
