"""A replica's role in its partition: connects the state machine with log and waiters.

`core.replica.Replica` decides, and owns the state that it decides by, including the high watermark.
This shell carries out its effects, in order and before the next event, and adds messages to its
refusals. Appends and reads are in `replica.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NotRequired, TypedDict

from highwater.hop.append import OUTCOME_UNKNOWN, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.time import Clock
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.followers import FollowerProgress
from highwater.partition.core.refusals import log_failure_code, refuse_deletion
from highwater.partition.core.replica import NO_EPOCH, NO_NODE, Replica
from highwater.partition.core.succession import have_all, successors
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.waiters import Waiters
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure, StorageError
from highwater.partition.storage.log.log import PartitionLog

LAG_MS_MAX_DEFAULT: Final = 10_000
"""replica.lag.time.max.ms; Kafka's is 30 s."""

WHOLE_LOG: Final = -1
"""DeleteRecords up to the high watermark (`DeleteRecordsRequest.HIGH_WATERMARK` in Kafka)."""

Listener = Callable[["ReplicaRole"], object]


class ReplicaPlace(TypedDict):
    """The arguments of `ReplicaRole`, for classes that pass them on."""

    topic_id: TopicId
    topic_name: str
    partition: int
    log: PartitionLog
    log_dir: int
    clock: Clock
    node: NotRequired[int]
    node_epoch: NotRequired[int]
    lag_ms_max: NotRequired[int]
    session: NotRequired[ControllerSession | None]
    flush: NotRequired[Callable[[PartitionLog, Callable[[], None]], None]]


def _flush_here(log: PartitionLog, done: Callable[[], None]) -> None:
    log.durability.flush()
    done()


class ReplicaRole:
    """See the module. Offsets count records, times milliseconds of the monotonic clock."""

    __slots__ = (
        "_catching_up",
        "_keeping_log_start",
        "clock",
        "core",
        "fetches_nothing",
        "flush",
        "listeners",
        "log",
        "log_dir",
        "partition",
        "topic_id",
        "topic_name",
        "transactions",
        "waiters",
    )

    def __init__(
        self,
        *,
        topic_id: TopicId,
        topic_name: str,
        partition: int,
        log: PartitionLog,
        log_dir: int,
        clock: Clock,
        node: int = NO_NODE,
        node_epoch: int = NO_EPOCH,
        lag_ms_max: int = LAG_MS_MAX_DEFAULT,
        session: ControllerSession | None = None,
        flush: Callable[[PartitionLog, Callable[[], None]], None] = _flush_here,
    ) -> None:
        """`log_dir` is the index of the log's directory among the node's.

        `flush` syncs the log in the background, then calls back; for flush.messages. With a
        `session`, appends with acks 0 and 1 are refused when it has run out.
        """
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partition = partition
        self.fetches_nothing = False
        """Set while its disk is too full for what a leader would send."""
        self.log = log
        self.log_dir = log_dir
        self.clock = clock
        self.flush = flush
        self.transactions = log.producers.states.transactions
        """Which transactions are open in the log, as `last_stable_offset` needs it."""
        self.waiters = Waiters(self.transactions, self.last_stable_offset)
        self.listeners: tuple[Listener, ...] = ()
        """Called when the log has grown, the high watermark has moved, or the role has changed.
        Replaced as a whole, never changed; listeners may not raise."""
        self._catching_up = False
        """Whether fetches may wait for the high watermark to reach the start of this epoch."""
        self._keeping_log_start = False
        self.core = Replica(
            node=node,
            node_epoch=node_epoch,
            lag_ms_max=lag_ms_max,
            epochs=log.epochs.cache,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.stored_high_watermark,
            in_session=None if session is None else session.lasts,
        )

    # ---- state of the state machine ----

    @property
    def leading(self) -> bool:
        """True if this replica leads in `leader_epoch`."""
        return self.core.role is Role.LEADER

    @property
    def leader(self) -> int:
        """The leader as known here; -1 if there is none."""
        return self.core.leader

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch known here."""
        return self.core.leader_epoch

    @property
    def high_watermark(self) -> int:
        """All records below it are committed."""
        return self.core.high_watermark

    def last_stable_offset(self) -> int:
        """All transactions before it have ended, and their markers are committed. The log start
        offset while that is not known (`Transactions.is_known`).
        """
        transactions, start = self.transactions, self.log.extent.start_offset
        high_watermark = self.core.high_watermark
        if high_watermark < transactions.told_up_to:
            return start
        stable = high_watermark
        if transactions.open or transactions.ended:
            stable = transactions.last_stable_offset(high_watermark)
        return max(stable, start)

    @property
    def resigned(self) -> bool:
        """True if it takes no more appends in this epoch, so that another replica leads next."""
        return self.core.resigned

    @property
    def failed(self) -> bool:
        """True if the log cannot be used any more."""
        return self.core.role is Role.OFFLINE

    # ---- control path ----

    def handle(self, event: on.Event) -> None:
        """Gives an event to the state machine and carries out its effects."""
        effects = self.core.handle(event)
        try:
            for wanted in effects:
                self._carry_out(wanted)
        except (LogDirFailure, CorruptLogError) as error:
            self.log_failed(error)
        self.tell_listeners()

    def tell_listeners(self) -> None:
        """Calls the listeners after a change that a follower's session may wait for."""
        for listener in self.listeners:
            listener(self)

    def log_failed(self, error: StorageError) -> None:
        """Replaced by the subclass, which reports it."""
        raise NotImplementedError

    def ask_port(
        self, wanted: effect.StartFollowing | effect.StopFollowing | effect.ProposeIsr
    ) -> None:
        """Replaced by the subclass, which has the ReplicationPort."""
        raise NotImplementedError

    def _carry_out(self, wanted: effect.Effect) -> None:
        match wanted:
            case effect.HighWatermarkMoved():
                self._take_high_watermark(wanted.high_watermark)
            case effect.StartLeading():
                self.ask_port(effect.StopFollowing())
                self.log.epochs.begin(wanted.leader_epoch)
                self._catching_up = True
                self._look_again()
            case effect.BeginEpochBehind():
                self._begin_epoch_behind(wanted)
            case effect.StopLeading():
                self._stopped_leading(ErrorCode.REQUEST_TIMED_OUT)
            case effect.StartFollowing():
                self.ask_port(wanted)
                self._look_again()
            case effect.StopFollowing() | effect.ProposeIsr():
                self.ask_port(wanted)
            case effect.TruncateLog():
                self.log.truncate_to(wanted.offset)
                self._log_cut()
            case effect.RestartLog():
                self.log.truncate_fully_and_start_at(wanted.offset)
                self._log_cut()
            case effect.AdvanceLogStart():
                self.log.advance_start(wanted.offset)
                self._look_again()

    def _begin_epoch_behind(self, wanted: effect.BeginEpochBehind) -> None:
        """Raises LogDirFailure."""
        epochs = self.log.epochs
        epochs.assign_behind(wanted.late_epoch, wanted.late_offset)
        if wanted.leader_epoch != NO_EPOCH:
            epochs.begin(wanted.leader_epoch)
            self._catching_up = True

    def _look_again(self) -> None:
        """Lets fetches see a new leader epoch, or a new log start offset."""
        if self.waiters.fetches:
            self.waiters.caught_up()

    def _log_cut(self) -> None:
        log = self.log
        self.core.handle(
            on.LogTruncated(
                log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
            )
        )

    def began_at(self, offset: int) -> None:
        """A follower's log was emptied, to begin at this offset."""
        self.log.truncate_fully_and_start_at(offset)
        self._log_cut()

    def counted_end(self) -> int:
        """Up to where the log counts now: not records that wait for a flush by flush.messages."""
        log = self.log
        if log.log_end_offset < log.durability.flush_at_offset:
            return log.log_end_offset
        return max(log.durability.recovery_point, self.core.counted_end_offset)

    def log_end_moved(self) -> None:
        """A flush has ended: more of the log counts."""
        self.handle(
            on.LogEndMoved(
                log_end_offset=self.log.log_end_offset, counted_end_offset=self.counted_end()
            )
        )

    def fetch_again(self) -> None:
        """Lets a follower fetch that had to wait for a write or a flush."""
        if self.core.may_ask():
            self.ask_port(effect.StartFollowing(leader=self.leader, leader_epoch=self.leader_epoch))

    def written_late(self, epoch: int, next_offset: int, nbytes: int) -> None:
        """The writer thread wrote for `epoch` while this replica's role changed: the log now has
        records whose groups were answered before.
        """
        if self.leading:
            self.waiters.appended(next_offset, nbytes)
        self.handle(
            on.WrittenLate(
                leader_epoch=epoch,
                log_end_offset=self.log.log_end_offset,
                counted_end_offset=self.counted_end(),
            )
        )

    # ---- the log start offset ----

    def delete_records(self, before: int) -> tuple[int, int]:
        """Deletes the records before an offset, at a leader; (Kafka's error code, the offset).

        `WHOLE_LOG` is the high watermark. When the log start of all live replicas is on disk,
        `core.low_watermark` is at least the offset, and the listeners are called.
        """
        core, config = self.core, self.log.config
        if refused := core.refuse_fetch(NO_EPOCH):
            return refused, before
        if config.compact and not config.delete_policy:
            return ErrorCode.POLICY_VIOLATION, before
        offset = core.high_watermark if before == WHOLE_LOG else before
        if refused := refuse_deletion(offset, core.high_watermark):
            return refused, offset
        core.log_start_moved(self.log.log_start_offset)  # Retention may have moved it.
        self.handle(on.DeleteRecordsAsked(offset=offset))
        if not self.failed and core.kept_log_start < offset:
            self.keep_log_start()
        return core.refuse_fetch(NO_EPOCH), offset

    def keep_log_start(self) -> None:
        """Has the log start offset written to disk, by one write at a time."""
        if not self._keeping_log_start:
            self._keeping_log_start = True
            log = self.log
            kept = partial(self._log_start_kept, log.log_start_offset, log.life.truncations)
            log.keep_start(kept)

    def _log_start_kept(self, log_start_offset: int, truncations: int) -> None:
        self._keeping_log_start = False
        core, log = self.core, self.log
        if core.role not in (Role.LEADER, Role.FOLLOWER):
            return
        if truncations == log.life.truncations:
            core.log_start_moved(log_start_offset)
            self.handle(on.LogStartKept(log_start_offset=log_start_offset))
        if core.kept_log_start < log.log_start_offset:
            self.keep_log_start()
        self.fetch_again()

    def log_moved(self, log_dir: int) -> None:
        """The log has its files in another directory of the node now; nothing else has changed."""
        self.log_dir = log_dir
        if self._keeping_log_start:
            # The write that is under way is to the former directory, which may fail.
            self._keeping_log_start = False
            self.keep_log_start()

    def follower_keeps(self, follower: FollowerProgress, log_start_offset: int) -> None:
        """A follower has said where its log begins, after a crash, too."""
        follower.keeps(log_start_offset)
        self.tell_listeners()

    def _stopped_leading(self, error_code: int) -> None:
        """Ends all waits; records in the log may or may not be in the next leader's."""
        self.waiters.leader_gone(error_code)

    def resign(self) -> bool:
        """Refuses appends until the next epoch, so that followers can get all of the log.

        The next leader gets those appends. False, without a change, if there would be none.
        """
        self.core.handle(on.HandOverAsked())
        return self.leading and self.resigned

    @property
    def handed_over(self) -> bool:
        """True if each possible next leader has all of the log, or this replica does not lead."""
        return self.next_leader_has(self.log.log_end_offset)

    def successors(self) -> Iterator[int]:
        """The nodes that could be elected if this one stopped now."""
        core = self.core
        return successors(core.isr, core.node, core.ineligible)

    def next_leader_has(self, end_offset: int) -> bool:
        """`handed_over` for the log before an offset."""
        return not self.leading or have_all(self.successors(), self.core.followers, end_offset)

    def fail(self) -> None:
        """The log cannot be used any more.

        If another replica leads soon, every call is answered with "not leader"; otherwise with
        KAFKA_STORAGE_ERROR.
        """
        self._end(on.LogFailed())

    def retire(self) -> None:
        """The node no longer has this replica."""
        self._end(on.ReplicaRemoved())

    def _end(self, event: on.LogFailed | on.ReplicaRemoved) -> None:
        self.core.handle(event)
        self.ask_port(effect.StopFollowing())
        self._stopped_leading(self.storage_error if self.failed else ErrorCode.REQUEST_TIMED_OUT)
        self.tell_listeners()

    # ---- the high watermark ----

    def moved(self, high_watermark: int | None) -> None:
        """Call with the state machine's new high watermark, None if it did not move."""
        if high_watermark is not None:
            self._take_high_watermark(high_watermark)
            self.tell_listeners()

    def _take_high_watermark(self, high_watermark: int) -> None:
        self.commit_to(high_watermark)
        waiters = self.waiters
        if waiters.uncommitted:
            waiters.reached(high_watermark)
        elif waiters.fetches and not self.leading:
            waiters.caught_up()  # A follower does not count the bytes that become readable.
        if self._catching_up and self.core.offsets_available:
            self._catching_up = False
            if waiters.fetches:
                waiters.caught_up()

    def commit_to(self, high_watermark: int) -> None:
        """Tells storage the high watermark, which nothing else tells it, and completes groups."""
        self.log.stored_high_watermark = high_watermark
        if self.transactions.seen:
            self.transactions.commit_to(high_watermark)
        if self.waiters.commits:
            self.waiters.offset_committed(high_watermark)

    # ---- refusals ----

    @property
    def storage_error(self) -> ErrorCode:
        """The error for appends that may be in the failed log; see `log_failure_code`."""
        return log_failure_code(self.resigned)

    def refusal(self, error_code: int, leader_epoch: int) -> Failure:
        """The failure for an append to that epoch, which `core.refuse_append` has refused."""
        core = self.core
        if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            return Failure(
                error_code,
                f"{len(core.isr.committed)} in-sync replicas, "
                f"min.insync.replicas is {core.min_isr}",
            )
        if error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and leader_epoch == core.append_epoch:
            # Names this leader and the group's own epoch: there is no other leader to wait for.
            return Failure(
                error_code,
                "the leader has no session with the controller: only acks=all is taken",
                leader=core.leader,
                leader_epoch=core.leader_epoch,
            )
        return self.not_leader()

    def not_leader(self) -> Failure:
        """The failure for an append that came to the wrong node or in the wrong epoch.

        A leader that has resigned names the epoch after its own, since it takes no more appends in
        its own. Gateways then hold the batches until they know that epoch's leader.
        """
        core = self.core
        code = core.refuse_append(NO_EPOCH, 0)
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            return Failure(code, "the log directory has failed")
        if core.resigned:
            return Failure(code, "the leader hands over", leader_epoch=core.leader_epoch + 1)
        return Failure(code, leader=core.leader, leader_epoch=core.leader_epoch)


def unknown(error_code: int, message: str) -> Failure:
    """The failure of an append that may or may not be in the next leader's log."""
    return Failure(error_code, message, outcome=OUTCOME_UNKNOWN)
