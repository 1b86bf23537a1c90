"""When and how a group of appends is answered, from the write to `AppendGroup.complete`.

A group is in one of these states, and is answered once; the first two are before the append. Groups
that wait for the same thing are answered in the order in which they came, and so are all waiting
groups when a leader's epoch ends. Only refusals overtake, except refusals by a leader that has
resigned.

| state | where it is kept | what moves it on | what ends it before that |
|---|---|---|---|
| to be verified | `VerifiedAppends` of the replica | granted: appended as if it came now | refused by the coordinator, its deadline, the epoch's end: not appended |
| to be converted | `Conversions` of the replica | converted: appended as if it came now | its batches cannot be converted: not appended |
| refused | nowhere | answered at once (`refuse`), unless batches of it are in the log: then as written. So is one that may not be stored (`refuse_to_store`) | - |
| queued | `stalled` | `go_on`, when it is the first and the writer thread is free: appended as if it came now | the epoch's end: not appended. Too many bytes wait: REQUEST_TIMED_OUT |
| in hand | `_in_hand`, and first of `stalled` | `_written`, when the writer thread has written it | the epoch's end: unknown |
| written | nowhere: `appended` | at once: answered, or one of the next two | the log failed (`log_failed`): unknown |
| unflushed | `unflushed` | `_flushed`, when the flush that flush.messages asks for has ended | the epoch's end: unknown |
| uncommitted, acks=all | `Waiters.commits` | the high watermark (`Waiters.offset_committed`) | its deadline (`expire`), or too many after it: appended. The epoch's end: unknown |

Groups are queued while the log directory hangs, while a leader `holds` appends because it may
resume, and behind earlier groups of a leader that has resigned. A write or flush may end after the
epoch in which it began: its group was answered then, and the role only gets the new log end.
"""

from collections.abc import Callable
from functools import partial

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.refusals import commit_timeout_code
from highwater.partition.core.replica import ACKS_ALL
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.data_plane.known_batches import known_batches
from highwater.partition.data_plane.replica_role import ReplicaRole, unknown
from highwater.partition.data_plane.stalled_appends import StalledAppends
from highwater.partition.data_plane.waiters import CommitWait
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.append_info import LogAppendInfo


class AppendAnswers:
    """See the module. Lives as long as its replica. `appended` is on the hot path."""

    __slots__ = (
        "_append",
        "_core",
        "_in_hand",
        "_log",
        "_role",
        "_waiters",
        "holds",
        "stalled",
        "unflushed",
    )

    def __init__(
        self,
        role: ReplicaRole,
        *,
        append: Callable[[AppendGroup, bool], None],
    ) -> None:
        """`append(group, True)` is the replica's method for a group that was queued."""
        self._role = role
        self._core = role.core
        self._log = role.log
        self._waiters = role.waiters
        self._append = append
        self.holds = False
        """The replica has resigned and may resume, so appends wait here, not at gateways."""
        self.stalled: StalledAppends | None = None
        """Set while groups are queued or in hand."""
        self._in_hand: CommitWait | None = None
        """The group that the writer thread writes to a stalled directory."""
        self.unflushed: dict[CommitWait, None] = {}
        """Groups that are acknowledged only once the flush for them has ended."""

    # ---- not appended now ----

    def refuse(self, group: AppendGroup, error_code: int, waited: bool) -> None:
        """Refuses a group; if resigned, after earlier groups, so that gateways keep their order.

        A group with batches that are in the log waits for their commit, although the ISR is small.
        """
        role = self._role
        if not (role.resigned and role.leading) or waited or not self._answers_are_due():
            refusal = role.refusal(error_code, group.leader_epoch)
            if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
                self.refuse_to_store(group, refusal)
            else:
                group.fail(refusal)
            return
        if self.stalled is None:
            self.stalled = StalledAppends(self._log.stall)
        if not self.stalled.add(group):
            group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT, "too much waits for the next leader"))

    def refuse_to_store(self, group: AppendGroup, refusal: Failure) -> None:
        """Refuses the batches of a group that are not in the log; the others wait for their commit, also
        those that are only being written.
        """
        known = known_batches(group, self._log.producers.states, refusal)
        if known is None:
            group.fail(refusal)
            return
        end_offset = max(self._log.extent.end_offset, self._log.late_writer.end_offset)
        group.known_timestamps = known.known_timestamps
        self.appended(group, known.base_offsets, known.failures, end_offset, 0)

    def _answers_are_due(self) -> bool:
        """True while earlier groups wait here."""
        waits = self.stalled is not None or self._waiters.commits or self.unflushed
        return bool(self.holds or waits)

    def queue(self, group: AppendGroup) -> None:
        """Queues a group for a stalled directory, which gets all groups in queue order."""
        stalled, first = self.stalled, self.stalled is None
        if stalled is None:
            stalled = StalledAppends(self._log.stall)
        if not stalled.add(group):
            group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT, "the log directory is too slow"))
        elif first:
            self.stalled = stalled
            self._take_queued(stalled)

    def go_on(self) -> None:
        """Takes the next queued groups. Called when the writer thread has ended a follower's write,
        or when all groups from before this replica resigned are answered.
        """
        if self.stalled is not None:
            self._take_queued(self.stalled)

    def _take_queued(self, stalled: StalledAppends) -> None:
        """Appends queued groups until the writer thread has one in hand, or none is left."""
        if self.holds:
            return
        late_writer = self._log.late_writer
        try:
            while not late_writer.writing and (group := stalled.take()) is not None:
                self._append(group, True)
        except Exception:
            # A bug; the caller reports it. No group may wait for ever.
            self._role.fail()
            raise
        finally:
            if not late_writer.writing and not stalled:
                self.stalled = None

    def write_later(
        self, wait: CommitWait, info: LogAppendInfo, aborted: AbortedTransaction | None = None
    ) -> bool:
        """Gives a group to the writer thread. False if it is in the log already, as with
        `LateWriter.append`. Raises LogDirFailure.
        """
        if self._log.late_writer.append(info, partial(self._written, wait), aborted):
            self._in_hand = wait
            return True
        return False

    def _written(self, wait: CommitWait) -> None:
        """The writer thread has written a group of `stalled` to the log."""
        stalled, group, role = self.stalled, wait.group, self._role
        assert stalled is not None
        self._in_hand = None
        if not group.completed:
            self.appended(
                group, wait.base_offsets, wait.failures, wait.required_offset, wait.nbytes
            )
        elif not role.failed:
            # Leadership was lost meanwhile, perhaps regained; the group was answered as unknown.
            role.written_late(group.leader_epoch, wait.required_offset, wait.nbytes)
            self._flush_late()
        self._take_queued(stalled)

    # ---- appended ----

    def appended(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: dict[int, Failure] | None,
        next_offset: int,
        nbytes: int,
        flushed: bool = False,
    ) -> None:
        """The group is in the log, up to `next_offset`; it added `nbytes`, perhaps 0.

        It is answered now, or when the log is flushed, or with acks=all when the high watermark
        has passed it. Fetches and listeners that wait for new records are served, too.
        """
        core, log, waiters = self._core, self._log, self._waiters
        extent = log.extent
        group.log_start_offset = extent.start_offset
        if nbytes:
            end = counted_end = extent.end_offset
            if end >= log.durability.flush_at_offset:
                counted_end = self._role.counted_end()
                if not flushed:
                    wait = CommitWait(group, base_offsets, failures, next_offset, nbytes)
                    self.unflushed[wait] = None
                    moved = core.appended(end, counted_end)
                    if moved is not None:  # More of the log was flushed than was asked for here.
                        self._role.moved(moved)
                    self._role.flush(log, partial(self._flushed, wait))
                    return
            moved = core.appended(end, counted_end)
            if moved is not None:
                self._role.commit_to(moved)
        if group.acks == ACKS_ALL and core.high_watermark < next_offset:
            group.release_bytes()
            waiters.add_commit(CommitWait(group, base_offsets, failures, next_offset))
        else:
            group.complete(base_offsets, failures)
        if not nbytes:
            return
        if core.high_watermark < next_offset or waiters.uncommitted:
            waiters.appended(next_offset, nbytes)
            waiters.reached(core.high_watermark)
        elif waiters.fetches:
            waiters.bytes_committed(nbytes)
        if self._role.listeners:
            self._role.tell_listeners()

    def _flushed(self, wait: CommitWait) -> None:
        """The flush for this group has ended."""
        group, next_offset, nbytes = wait.group, wait.required_offset, wait.nbytes
        if wait in self.unflushed:
            del self.unflushed[wait]
            self.appended(group, wait.base_offsets, wait.failures, next_offset, nbytes, True)
            return
        # Leadership was lost meanwhile, perhaps regained; the group was answered as unknown.
        role = self._role
        if self._core.counted_end_offset < next_offset <= self._log.extent.end_offset:
            if role.leading:
                self._waiters.appended(next_offset, nbytes)
            self._late_is_flushed()

    def _flush_late(self) -> None:
        """A write has ended whose group was answered before. If flush.messages asks for a flush,
        the log's end counts only after that.
        """
        log = self._log
        if log.extent.end_offset >= log.durability.flush_at_offset:
            self._role.flush(log, self._late_is_flushed)
        else:
            self._role.fetch_again()

    def _late_is_flushed(self) -> None:
        self._role.log_end_moved()
        self._role.fetch_again()

    def log_failed(self, wait: CommitWait, error: LogDirFailure) -> None:
        """The append of a group failed; one of `stalled` is answered with the whole queue."""
        self._in_hand = wait
        self._role.log_failed(error)
        self._in_hand = None
        if not wait.group.completed:
            wait.give_up(unknown(self._role.storage_error, str(error)))

    # ---- the end of waits ----

    def expire(self, now_ms: int) -> None:
        """Answers acks=all groups whose deadline has passed; their records stay."""
        if self._waiters.commits:
            code = commit_timeout_code(self._core.under_min_isr)
            self._waiters.expire_commits(now_ms, code)

    def leader_gone(self, error_code: int) -> None:
        """Answers the remaining groups, after `Waiters.leader_gone`: all in the order in which they
        came, because gateways resend them in the order of their answers.
        """
        unflushed, self.unflushed = self.unflushed, {}
        for wait in unflushed:
            wait.give_up(unknown(error_code, "the flush was not seen to end"))
        if self.stalled is not None:
            not_written = unknown(error_code, "the write was not seen to end")
            if self._in_hand is not None and not self._in_hand.group.completed:
                self._in_hand.give_up(not_written)
            self.stalled.fail(not_written, self._role.not_leader())
            if self.holds:
                self.stalled = None
        self.holds = False
