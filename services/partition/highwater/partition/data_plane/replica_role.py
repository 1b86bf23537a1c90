"""A replica's place in its partition: the state machine, and what it asks of log and waiters.

`core.replica.Replica` decides and owns what it decides by, the high watermark, too. This shell
carries its effects out, in order and before the next event, and words its refusals. Appends and
reads are in `replica.py`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from highwater.hop.append import OUTCOME_UNKNOWN, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.time import Clock
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.refusals import log_failure_code
from highwater.partition.core.replica import NO_EPOCH, NO_NODE, Replica
from highwater.partition.core.succession import have_all, successors
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.waiters import Waiters
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure, StorageError
from highwater.partition.storage.log.log import PartitionLog

LAG_MS_MAX_DEFAULT: Final = 10_000
"""replica.lag.time.max.ms; Kafka's is 30 s."""

Listener = Callable[["ReplicaRole"], None]


def _flush_here(log: PartitionLog, done: Callable[[], None]) -> None:
    log.durability.flush()
    done()


class ReplicaRole:
    """See the module. Offsets count records, times milliseconds of the monotonic clock."""

    __slots__ = (
        "clock",
        "core",
        "flush",
        "listeners",
        "log",
        "log_dir",
        "partition",
        "topic_id",
        "topic_name",
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

        `flush` syncs the log, somewhere else, and then calls back; for flush.messages. With a
        `session`, appends with acks 0 and 1 are refused when it has run out.
        """
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partition = partition
        self.log = log
        self.log_dir = log_dir
        self.clock = clock
        self.flush = flush
        self.waiters = Waiters()
        self.listeners: tuple[Listener, ...] = ()
        """Told when the log has grown, the high watermark has moved, or the role has changed.
        Replaced, never changed; they may not raise."""
        self.core = Replica(
            node=node,
            node_epoch=node_epoch,
            lag_ms_max=lag_ms_max,
            epochs=log.epochs.cache,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            in_session=None if session is None else session.lasts,
        )

    # ---- what the state machine says ----

    @property
    def leading(self) -> bool:
        """True if this replica leads in `leader_epoch`."""
        return self.core.role is Role.LEADER

    @property
    def leader(self) -> int:
        """The node that leads, as this one knows; -1 if none does."""
        return self.core.leader

    @property
    def leader_epoch(self) -> int:
        """The newest that this node knows."""
        return self.core.leader_epoch

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self.core.high_watermark

    @property
    def resigned(self) -> bool:
        """Nothing is appended in this epoch any more; another replica is to lead the next one."""
        return self.core.resigned

    @property
    def failed(self) -> bool:
        """The log cannot be used any more."""
        return self.core.role is Role.OFFLINE

    # ---- control path ----

    def handle(self, event: on.Event) -> None:
        """Gives an event to the state machine and carries out what follows from it."""
        effects = self.core.handle(event)
        try:
            for wanted in effects:
                self._carry_out(wanted)
        except (LogDirFailure, CorruptLogError) as error:
            self.log_failed(error)
        self.tell_listeners()

    def tell_listeners(self) -> None:
        """Something changed that a follower's session may wait for."""
        for listener in self.listeners:
            listener(self)

    def log_failed(self, error: StorageError) -> None:
        """Replaced by the subclass, which knows whom to tell."""
        raise NotImplementedError

    def ask_port(
        self, wanted: effect.StartFollowing | effect.StopFollowing | effect.ProposeIsr
    ) -> None:
        """Replaced by the subclass, which is what the ReplicationPort knows."""
        raise NotImplementedError

    def _carry_out(self, wanted: effect.Effect) -> None:
        match wanted:
            case effect.HighWatermarkMoved():
                self._take_high_watermark(wanted.high_watermark)
            case effect.StartLeading():
                self.ask_port(effect.StopFollowing())
                self.log.epochs.begin(wanted.leader_epoch)
            case effect.BeginEpochBehind():
                self._begin_epoch_behind(wanted)
            case effect.StopLeading():
                self._stopped_leading(ErrorCode.REQUEST_TIMED_OUT)
            case effect.StartFollowing() | effect.StopFollowing() | effect.ProposeIsr():
                self.ask_port(wanted)
            case effect.TruncateLog():
                self.log.truncate_to(wanted.offset)
                self._log_cut()
            case effect.RestartLog():
                self.log.truncate_fully_and_start_at(wanted.offset)
                self._log_cut()

    def _begin_epoch_behind(self, wanted: effect.BeginEpochBehind) -> None:
        """Raises LogDirFailure."""
        log = self.log
        log.epochs.cache.truncate_from_end(wanted.late_offset)
        log.epochs.assign(wanted.late_epoch, wanted.late_offset)
        if wanted.leader_epoch != NO_EPOCH:
            log.epochs.begin(wanted.leader_epoch)

    def _log_cut(self) -> None:
        log = self.log
        self.core.handle(
            on.LogTruncated(
                log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
            )
        )
        log.high_watermark = self.core.high_watermark

    def began_at(self, offset: int) -> None:
        """A follower's log has been made anew, empty, to begin at this offset."""
        self.log.truncate_fully_and_start_at(offset)
        self._log_cut()

    def counted_end(self) -> int:
        """How much of the log counts now: not what waits for a flush that flush.messages asks for."""
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
        """A follower that could not fetch, because a write or a flush was under way."""
        if self.core.may_ask():
            self.ask_port(effect.StartFollowing(leader=self.leader, leader_epoch=self.leader_epoch))

    def written_late(self, epoch: int, next_offset: int, nbytes: int) -> None:
        """The writer thread was at work for `epoch` while this replica's role changed: records that
        nobody waits for are in the log now.
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

    def _stopped_leading(self, error_code: int) -> None:
        """Whoever waits here hears it; what is in the log may be in the next leader's or not."""
        self.waiters.leader_gone(error_code)

    def resign(self) -> bool:
        """Refuses appends until the next epoch, so that followers can have all of the log.

        They are for the next leader. False, and nothing changes, if there would be none.
        """
        self.core.handle(on.HandOverAsked())
        return self.leading and self.resigned

    @property
    def handed_over(self) -> bool:
        """True if whoever is elected next has all of the log, or this replica does not lead."""
        return self.next_leader_has(self.log.log_end_offset)

    def successors(self) -> Iterator[int]:
        """The nodes that would be elected if this one went now."""
        core = self.core
        return successors(core.isr, core.node, core.ineligible)

    def next_leader_has(self, end_offset: int) -> bool:
        """The same for the log before an offset."""
        return not self.leading or have_all(self.successors(), self.core.followers, end_offset)

    def fail(self) -> None:
        """The log cannot be used any more.

        Where another replica leads soon, every call says that this one does not; else it answers
        KAFKA_STORAGE_ERROR from now on.
        """
        self._end(on.LogFailed())

    def retire(self) -> None:
        """The node has this replica no longer."""
        self._end(on.ReplicaRemoved())

    def _end(self, event: on.LogFailed | on.ReplicaRemoved) -> None:
        self.core.handle(event)
        self.ask_port(effect.StopFollowing())
        self._stopped_leading(self.storage_error if self.failed else ErrorCode.REQUEST_TIMED_OUT)
        self.tell_listeners()

    # ---- the high watermark ----

    def moved(self, high_watermark: int | None) -> None:
        """After the state machine moved the high watermark, or did not (None)."""
        if high_watermark is not None:
            self._take_high_watermark(high_watermark)
            self.tell_listeners()

    def _take_high_watermark(self, high_watermark: int) -> None:
        before = self.log.high_watermark
        self.commit_to(high_watermark)
        waiters = self.waiters
        if waiters.uncommitted:
            waiters.reached(high_watermark)
        if before < self.core.epoch_start_offset <= high_watermark and waiters.fetches:
            waiters.caught_up()

    def commit_to(self, high_watermark: int) -> None:
        """Tells the log, whose checkpoint and retention go by it, and completes groups."""
        self.log.high_watermark = high_watermark
        if self.waiters.commits:
            self.waiters.offset_committed(high_watermark)

    # ---- refusals ----

    @property
    def storage_error(self) -> ErrorCode:
        """For an append that may be in the log that failed: the next leader's log knows better."""
        return log_failure_code(self.resigned)

    def refusal(self, error_code: int, leader_epoch: int) -> Failure:
        """What an append to that epoch is told that `core.refuse_append` has refused."""
        core = self.core
        if error_code == ErrorCode.NOT_ENOUGH_REPLICAS:
            return Failure(
                error_code,
                f"{len(core.isr.committed)} in-sync replicas, "
                f"min.insync.replicas is {core.min_isr}",
            )
        if error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and leader_epoch == core.append_epoch:
            # It names itself and the group's own epoch: there is nobody else to wait for.
            return Failure(
                error_code,
                "the leader has no session with the controller: only acks=all is taken",
                leader=core.leader,
                leader_epoch=core.leader_epoch,
            )
        return self.not_leader()

    def not_leader(self) -> Failure:
        """What an append is told that came to the wrong node or in the wrong epoch.

        Who has resigned names the epoch after its own, as it takes nothing in its own any more;
        gateways then hold what they have until they know that epoch's leader.
        """
        core = self.core
        code = core.refuse_append(NO_EPOCH, 0)
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            return Failure(code, "the log directory has failed")
        if core.resigned:
            return Failure(code, "the leader hands over", leader_epoch=core.leader_epoch + 1)
        return Failure(code, leader=core.leader, leader_epoch=core.leader_epoch)


def unknown(error_code: int, message: str) -> Failure:
    """An append of which nobody knows whether it is in the log that will go on."""
    return Failure(error_code, message, outcome=OUTCOME_UNKNOWN)
