"""A replica's place in its partition: the state machine, and what it asks of log and waiters.

`core.replica.Replica` decides; this shell carries its effects out, in order and before the next
event, and keeps the answers that the hot path needs as plain attributes. Appends and reads are in
`replica.py`.
"""

from collections.abc import Callable
from typing import Final

from highwater.hop.append import OUTCOME_UNKNOWN, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.time import Clock
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica import ACKS_ALL, NO_EPOCH, NO_NODE, Replica
from highwater.partition.core.succession import has_successor, successors_have_all
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.waiters import Waiters
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure, StorageError
from highwater.partition.storage.log.log import PartitionLog

LAG_MS_MAX_DEFAULT: Final = 10_000
"""replica.lag.time.max.ms; Kafka's is 30 s."""

NO_APPENDS: Final = -2
"""An epoch in which nobody sends anything."""

Listener = Callable[["ReplicaRole"], None]


class ReplicaRole:
    """See the module. Offsets count records, times milliseconds of the monotonic clock."""

    __slots__ = (
        "append_epoch",
        "clock",
        "core",
        "failed",
        "high_watermark",
        "leader",
        "leader_epoch",
        "leading",
        "listeners",
        "log",
        "log_dir",
        "partition",
        "resigned",
        "restricted",
        "session",
        "short_isr",
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
    ) -> None:
        """`log_dir` is the index of the log's directory among the node's.

        With a `session`, appends with acks 0 and 1 are refused when it has run out.
        """
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partition = partition
        self.log = log
        self.log_dir = log_dir
        self.clock = clock
        self.waiters = Waiters()
        self.listeners: tuple[Listener, ...] = ()
        """Told when the log has grown, the high watermark has moved, or the role has changed.
        Replaced, never changed; they may not raise."""
        self.core = Replica(
            node=node,
            node_epoch=node_epoch,
            lag_ms_max=lag_ms_max,
            epochs=log.epochs,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        self.high_watermark = self.core.high_watermark
        self.failed = False
        self.leading = False
        self.leader = NO_NODE
        self.leader_epoch = NO_EPOCH
        self.append_epoch = NO_APPENDS
        """The epoch in which appends are taken, `NO_APPENDS` while none are."""
        self.resigned = False
        """Nothing is appended in this epoch any more, and another replica leads the next one."""
        self.short_isr = False
        """Nothing can be committed, so appends with acks=all are refused (KIP-966)."""
        self.session = session
        self.restricted = session is not None
        """Whether `refusal_by_acks` has to be asked before an append."""

    # ---- control path ----

    def handle(self, event: on.Event) -> None:
        """Gives an event to the state machine and carries out what follows from it."""
        effects = self.core.handle(event)
        self._mirror()
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

    def _mirror(self) -> None:
        core = self.core
        self.leading = core.role is Role.LEADER
        if core.leader_epoch != self.leader_epoch:
            self.resigned = False
        self.leader = core.leader
        self.leader_epoch = core.leader_epoch
        takes_appends = self.leading and not self.resigned
        self.append_epoch = core.leader_epoch if takes_appends else NO_APPENDS
        self.short_isr = core.under_min_isr
        self.restricted = self.short_isr or self.session is not None

    def _carry_out(self, wanted: effect.Effect) -> None:
        match wanted:
            case effect.HighWatermarkMoved():
                self._take_high_watermark(wanted.high_watermark)
            case effect.StartLeading():
                self.ask_port(effect.StopFollowing())
                self.log.begin_epoch(wanted.leader_epoch)
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

    def _log_cut(self) -> None:
        log = self.log
        self.core.handle(
            on.LogTruncated(
                log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset
            )
        )
        self.high_watermark = log.high_watermark = self.core.high_watermark

    def lead_behind(self, epoch: int) -> None:
        """The epoch that this node leads begins at the log's end, behind records of `epoch`.

        They were being written when it came to lead, so its own epoch was noted before them. It
        has no records yet: appends wait for the writer thread. Raises LogDirFailure.
        """
        log = self.log
        _, start = log.epochs.entries()[-1]
        log.epochs.truncate_from_end(start)
        log.assign_epoch(epoch, start)
        log.begin_epoch(self.leader_epoch)
        self.core.epoch_start_offset = log.log_end_offset

    def _stopped_leading(self, error_code: int) -> None:
        """Whoever waits here hears it; what is in the log may be in the next leader's or not."""
        self.waiters.leader_gone(error_code)

    def resign(self) -> bool:
        """Refuses appends until the next epoch, so that followers can have all of the log.

        They are for the next leader. False, and nothing changes, if there would be none.
        """
        if not self.leading or not has_successor(self.core):
            return False
        self.resigned = True
        self._mirror()
        return True

    @property
    def handed_over(self) -> bool:
        """True if whoever is elected next has all of the log, or this replica does not lead."""
        return self.next_leader_has(self.log.log_end_offset)

    def next_leader_has(self, end_offset: int) -> bool:
        """The same for the log before an offset."""
        return not self.leading or successors_have_all(self.core, end_offset)

    def fail(self) -> None:
        """The log cannot be used any more.

        Where another replica leads soon, every call says that this one does not; else it answers
        KAFKA_STORAGE_ERROR from now on.
        """
        if self.leading:
            self.resigned = has_successor(self.core)
        self.failed = True
        self._end(self.storage_error)

    def retire(self) -> None:
        """The node has this replica no longer."""
        self._end(ErrorCode.REQUEST_TIMED_OUT)
        self.leader = NO_NODE

    def _end(self, error_code: int) -> None:
        self.core.handle(on.LogFailed())
        self._mirror()
        self.ask_port(effect.StopFollowing())
        self._stopped_leading(error_code)
        self.tell_listeners()

    # ---- the high watermark ----

    def moved(self, high_watermark: int | None) -> None:
        """After the state machine moved the high watermark, or did not (None)."""
        if high_watermark is not None:
            self._take_high_watermark(high_watermark)
            self.tell_listeners()

    def _take_high_watermark(self, high_watermark: int) -> None:
        caught_up = self.high_watermark < self.core.epoch_start_offset <= high_watermark
        self.high_watermark = high_watermark
        self.log.high_watermark = high_watermark
        waiters = self.waiters
        if waiters.commits:
            waiters.offset_committed(high_watermark)
        if waiters.uncommitted:
            waiters.reached(high_watermark)
        if caught_up and waiters.fetches:
            waiters.caught_up()

    # ---- refusals ----

    @property
    def storage_error(self) -> ErrorCode:
        """For an append that may be in the log that failed: the next leader's log knows better."""
        return ErrorCode.REQUEST_TIMED_OUT if self.resigned else ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def _unusable(self) -> bool:
        """True if clients have to know that the log has failed: nobody else leads."""
        if not self.failed or self.resigned:
            return False
        return self.leader in (NO_NODE, self.core.node)

    def not_leader(self) -> Failure:
        """What an append is told that came to the wrong node or in the wrong epoch.

        Who has resigned names the epoch after its own, as it takes nothing in its own any more;
        gateways then hold what they have until they know that epoch's leader.
        """
        if self._unusable:
            return Failure(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory has failed")
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.resigned:
            return Failure(code, "the leader hands over", leader_epoch=self.leader_epoch + 1)
        return Failure(code, leader=self.leader, leader_epoch=self.leader_epoch)

    def refusal_by_acks(self, acks: int) -> Failure | None:
        """Why a leader may not take an append with these acks now; None if it may.

        Whom the controller cannot hear may have been replaced. Records that a quorum of the ISR has
        to take are safe all the same, by epoch and ISR; those that nobody else has would be lost.
        The leader names itself and the group's own epoch: there is nobody else to wait for.
        """
        if acks == ACKS_ALL:
            return self.not_enough_replicas() if self.short_isr else None
        if self.session is None or self.session.lasts:
            return None
        return Failure(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "the leader has no session with the controller: only acks=all is taken",
            leader=self.leader,
            leader_epoch=self.leader_epoch,
        )

    def not_enough_replicas(self) -> Failure:
        """What an acks=all append is told while the ISR is smaller than min.insync.replicas."""
        core = self.core
        return Failure(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{len(core.isr.committed)} in-sync replicas, min.insync.replicas is {core.min_isr}",
        )

    def refuse_fetch(self, current_leader_epoch: int) -> int:
        """Kafka's error code for a read that may not be served here, 0 if it may (KIP-320)."""
        if not self.leading:
            if self._unusable:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return 0
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH


def unknown(error_code: int, message: str) -> Failure:
    """An append of which nobody knows whether it is in the log that will go on."""
    return Failure(error_code, message, outcome=OUTCOME_UNKNOWN)
