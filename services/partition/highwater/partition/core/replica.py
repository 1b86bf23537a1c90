"""The replica state machine: one replica of one partition, without I/O and without a clock.

Control events go through `handle`, which returns effects in the order in which they have to be
carried out. Appends and fetches are plain calls with numbers (the hot path: no object per call);
they return the new high watermark, or None if it did not move. Sources: Kafka's `Partition` and
`AbstractFetcherThread`; KIP-101, 279, 320, 497, 595, 903, 966.
"""

from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from highwater.partition.core.divergence import divergence, truncation_offset
from highwater.partition.core.followers import FollowerProgress, leave_isr
from highwater.partition.core.isr import IsrState
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.replica_effects import (
    Effect,
    HighWatermarkMoved,
    ProposeIsr,
    RestartLog,
    StartFollowing,
    StartLeading,
    StopFollowing,
    StopLeading,
    TruncateLog,
)
from highwater.partition.core.transitions import TRANSITIONS, Role

NO_NODE: Final = -1
NO_EPOCH: Final = -1
ACKS_ALL: Final = -1

OUTDATED_CODES: Final = frozenset({
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip
"""Refusals of AlterPartition after which only a newer image can help."""

REFUSED_CODES: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Refusals of a proposal that was looked at; after any other code its outcome is not known."""


class IllegalTransitionError(Exception):
    """An event or a call that cannot come in the present role: a bug of the caller."""


class Replica:
    """One node's replica, from opening its log until that is closed, deleted or fails.

    Transitions, with what triggers them:

    - UNASSIGNED, FOLLOWER, LEADER -> LEADER: `PartitionChanged` with a newer leader epoch and
      this node as the leader. An epoch is led by one incarnation of one node, once.
    - UNASSIGNED, FOLLOWER, LEADER -> FOLLOWER: `PartitionChanged` with a newer leader epoch and
      another leader, or none.
    - any -> OFFLINE: `LogFailed`. Nothing leads out of it.

    Its view of the cluster is its node's: the newest partition record that it was given, and as
    a leader the followers' fetches. A record older than one that was seen changes nothing.
    """

    __slots__ = (
        "_lag_ms_max",
        "epoch_start_offset",
        "epochs",
        "followers",
        "high_watermark",
        "ineligible",
        "isr",
        "isr_due",
        "leader",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "min_isr",
        "node",
        "node_epoch",
        "progress",
        "replicas",
        "role",
        "truncating",
    )

    def __init__(
        self,
        *,
        node: int,
        node_epoch: int,
        lag_ms_max: int,
        epochs: LeaderEpochCache,
        log_start_offset: int,
        log_end_offset: int,
        high_watermark: int,
    ) -> None:
        """`epochs` belongs to the log, which changes it; `high_watermark` is the checkpointed one.

        `node_epoch` is -1 until the node is registered, and may be set at any time.
        """
        self.node = node
        self.node_epoch = node_epoch
        self._lag_ms_max = lag_ms_max
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = min(max(high_watermark, log_start_offset), log_end_offset)
        self.role = Role.UNASSIGNED
        self.leader = NO_NODE
        self.leader_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.min_isr = 1
        self.isr = IsrState()
        self.followers: dict[int, FollowerProgress] = {}
        self.progress: tuple[FollowerProgress, ...] = ()
        """The values of `followers`; the loop over them is the hottest here."""
        self.epoch_start_offset = 0
        """Where this leader's epoch begins."""
        self.isr_due = False
        """An `IsrDue` event would probably lead to a proposal."""
        self.truncating = False
        """Until `LogTruncated`; a follower does not fetch meanwhile."""
        self.ineligible: frozenset[int] = frozenset()

    # ---- control path ----

    def handle(self, event: on.Event) -> list[Effect]:
        """The effects of an event, in order; IllegalTransitionError if it cannot come now."""
        handler = TRANSITIONS[self.role].get(type(event))
        if handler is None:
            raise IllegalTransitionError(f"{type(event).__name__} while {self.role.value}")
        effects: list[Effect] = getattr(self, handler)(event)
        return effects

    def _changed(self, event: on.PartitionChanged) -> list[Effect]:
        if (
            event.partition_epoch < self.isr.partition_epoch
            or event.leader_epoch < self.leader_epoch
        ):
            return []
        if event.leader_epoch == self.leader_epoch:
            return self._record_changed(event)
        assert not self.truncating  # Effects are carried out before the next event.
        effects: list[Effect] = [StopLeading()] if self.role is Role.LEADER else []
        self.leader = event.leader
        self.leader_epoch = event.leader_epoch
        self.min_isr = event.min_isr
        self.isr = IsrState(self.isr.attempts)
        self.isr.commit(event.partition_epoch, event.isr)
        if event.leader == self.node:
            return effects + self._lead(event)
        self.role = Role.FOLLOWER
        self.replicas = event.replicas
        self._forget_followers()
        effects.append(StartFollowing(leader=event.leader, leader_epoch=event.leader_epoch))
        return effects

    def _lead(self, event: on.PartitionChanged) -> list[Effect]:
        self.role = Role.LEADER
        self._set_replicas(event.replicas)
        for follower in self.progress:
            follower.begin_term(event.now_ms, in_sync=follower.node in self.isr.maximal)
        self.epoch_start_offset = self.log_end_offset
        leading = StartLeading(leader_epoch=self.leader_epoch, start_offset=self.log_end_offset)
        return [leading, *self._moved(self._advance())]

    def _record_changed(self, event: on.PartitionChanged) -> list[Effect]:
        """The same leader in the same epoch, with another ISR, replicas or min.insync.replicas."""
        before = self.isr.committed
        if not self.isr.commit(event.partition_epoch, event.isr):
            return []
        self.min_isr = event.min_isr
        if self.role is not Role.LEADER:
            self.replicas = event.replicas
            return []
        self._set_replicas(event.replicas)
        return self._isr_moved(before)

    def _assigned_in_vain(self, event: on.PartitionChanged) -> list[Effect]:
        """Notes who leads instead of a replica that is offline, for those who ask."""
        if event.leader_epoch > self.leader_epoch:
            self.leader = event.leader
            self.leader_epoch = event.leader_epoch
        return []

    def _eligibility(self, event: on.IneligibleChanged) -> list[Effect]:
        self.ineligible = event.nodes
        for follower in self.progress:
            follower.near = follower.near and follower.node not in event.nodes
        return self._moved(self._advance()) if self.role is Role.LEADER else []

    def _lag(self, event: on.LagChecked) -> list[Effect]:
        """Proposes an ISR without those who fell behind; who caught up joins when it fetches."""
        end, now_ms = self.log_end_offset, event.now_ms
        lagging = set()
        for follower in self.progress:
            caught_up = follower.is_caught_up(end, now_ms, self._lag_ms_max)
            if not caught_up:
                lagging.add(follower.node)
            follower.near = caught_up and self._may_join(follower)
        if not self.isr.may_propose:
            return self._moved(self._advance())
        staying = tuple(node for node in self.isr.committed if node not in lagging)
        return self._propose(staying) + self._moved(self._advance())

    def _due(self, _: on.IsrDue) -> list[Effect]:
        self.isr_due = False
        if not self.isr.may_propose:
            return []
        joining = tuple(f.node for f in self.progress if self._can_join(f))
        return self._propose(self.isr.committed + joining)

    def _propose(self, wanted: tuple[int, ...]) -> list[Effect]:
        """One attempt; also to settle one that nobody answered, which moves the epoch."""
        if wanted == self.isr.committed and not self.isr.doubtful:
            return []
        attempt = self.isr.propose(wanted)
        self._mark_maximal()
        return [
            ProposeIsr(
                attempt=attempt,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.isr.partition_epoch,
                isr=wanted,
                node_epochs=tuple(self._node_epoch_of(node) for node in wanted),
            )
        ]

    def _answered(self, event: on.IsrAnswered) -> list[Effect]:
        before, attempted = self.isr.committed, self.isr.maximal
        if event.error_code == 0 and self._is_next(event):
            self.isr.commit(event.partition_epoch, event.isr)
            return self._isr_moved(before)
        if event.error_code in OUTDATED_CODES:
            self.isr.refused(event.attempt, outdated=True)
        elif event.error_code in REFUSED_CODES:
            self.isr.refused(event.attempt, outdated=False)
            leave_isr(self.progress, attempted, self.isr.maximal)
        else:
            # A success of a state that is not newer is the echo of an attempt that the image
            # has overtaken; other errors leave open whether the attempt was carried out.
            self.isr.unanswered(event.attempt)
        # A refused follower comes again with its next fetch, not at once.
        self.isr_due = self.isr.doubtful
        self._mark_maximal()
        return self._moved(self._advance())

    def _is_next(self, event: on.IsrAnswered) -> bool:
        """True if nothing came between what this leader knew and what was committed.

        Otherwise min.insync.replicas may have changed, which only an image tells; with the old
        minimum the high watermark could pass what eligible leaders have.
        """
        return (
            event.leader_epoch == self.leader_epoch
            and event.partition_epoch == self.isr.partition_epoch + 1
        )

    def _unanswered(self, event: on.IsrUnanswered) -> list[Effect]:
        self.isr.unanswered(event.attempt)
        self.isr_due = True
        return []

    def _isr_moved(self, before: tuple[int, ...]) -> list[Effect]:
        """After any change of the committed ISR, which was `before`."""
        leave_isr(self.progress, before, self.isr.maximal)
        self._mark_maximal()
        self.isr_due = self.isr.doubtful or any(map(self._can_join, self.progress))
        return self._moved(self._advance())

    def _diverged(self, event: on.Diverged) -> list[Effect]:
        if not self._fetched_so(event):
            return []
        offset = self._truncation_offset(event.epoch, event.end_offset)
        self.truncating = True
        return [TruncateLog(offset=offset)]

    def _out_of_range(self, event: on.OutOfRange) -> list[Effect]:
        """Deleted before our end: begin where the leader begins. Ahead of the leader: cut."""
        if not self._fetched_so(event):
            return []
        if self.log_end_offset > event.leader_log_end_offset:
            self.truncating = True
            return [TruncateLog(offset=event.leader_log_end_offset)]
        if self.log_end_offset < event.leader_log_start_offset:
            self.truncating = True
            return [RestartLog(offset=event.leader_log_start_offset)]
        return []

    def _fetched_so(self, event: on.Diverged | on.OutOfRange) -> bool:
        """True if the answer is about the log as it is now, and from the present leader."""
        return (
            self.may_fetch(event.leader_epoch)
            and event.fetch_offset == self.log_end_offset
            and event.last_fetched_epoch == self.epochs.latest
        )

    def _truncated(self, event: on.LogTruncated) -> list[Effect]:
        self.truncating = False
        self.log_start_offset = event.log_start_offset
        self.log_end_offset = event.log_end_offset
        bounded = min(self.high_watermark, event.log_end_offset)
        self.high_watermark = max(bounded, event.log_start_offset)
        return []

    def _failed(self, _: on.LogFailed) -> list[Effect]:
        before, self.role = self.role, Role.OFFLINE
        self._forget_followers()
        if before is Role.LEADER:
            return [StopLeading()]
        return [StopFollowing()] if before is Role.FOLLOWER else []

    def _too_late(self, _: object) -> list[Effect]:
        """An answer or a tick for a role that ended meanwhile."""
        return []

    # ---- leader, hot path ----

    def refuse_append(self, leader_epoch: int, acks: int) -> int:
        """Kafka's error code for an append that may not be made here and now, 0 if it may."""
        if self.role is not Role.LEADER or leader_epoch != self.leader_epoch:
            return (
                ErrorCode.KAFKA_STORAGE_ERROR
                if self.role is Role.OFFLINE
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        if acks == ACKS_ALL and self.under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return 0

    @property
    def under_min_isr(self) -> bool:
        """True while nothing can be committed because the ISR is too small (KIP-966)."""
        return len(self.isr.committed) < min(self.min_isr, len(self.replicas))

    def commit_timeout_code(self) -> int:
        """What an acks=all append is told whose time is over; it stays in the log."""
        if self.role is Role.LEADER and self.under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.REQUEST_TIMED_OUT

    def appended(self, log_end_offset: int) -> int | None:
        """The log ends here now, flushed as far as the topic demands. The new HW or None."""
        assert self.role is Role.LEADER
        self.log_end_offset = log_end_offset
        return self._advance()

    def refuse_fetch(self, current_leader_epoch: int) -> int:
        """Kafka's error code for a read that may not be served here, 0 if it may (KIP-320).

        -1 is a client that does not say; followers always do.
        """
        if self.role is not Role.LEADER:
            if self.role is Role.OFFLINE:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return 0
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def refuse_follower(self, node: int, node_epoch: int, leader_epoch: int) -> int:
        """As `refuse_fetch`, for a follower's fetch, which has to name its epochs."""
        refused = self.refuse_fetch(max(leader_epoch, 0))
        if refused:
            return refused
        follower = self.followers.get(node)
        if follower is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        known = node_epoch >= 0 and follower.admit(node_epoch)
        return 0 if known else ErrorCode.STALE_BROKER_EPOCH

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """None if the fetcher's log is a prefix of ours; see `core.divergence`.

        (-1, -1) is OFFSET_OUT_OF_RANGE, and so is an offset before our log start, which the
        caller checks first. A fetch that diverges is no progress.
        """
        return divergence(self.epochs, self.log_end_offset, fetch_offset, last_fetched_epoch)

    def follower_fetched(self, follower: FollowerProgress, offset: int, now_ms: int) -> int | None:
        """A fetch that was neither refused nor diverges: the new high watermark or None."""
        follower.fetched(offset, self.log_end_offset, now_ms)
        if not follower.in_maximal_isr:
            follower.near = now_ms - follower.caught_up_ms <= self._lag_ms_max and self._may_join(
                follower
            )
            if self._can_join(follower):
                self.isr_due = True
        return self._advance()

    @property
    def offsets_available(self) -> bool:
        """False while ListOffsets has to answer OFFSET_NOT_AVAILABLE: the HW is still catching up.

        A new leader's HW may lie behind its predecessor's until its followers have fetched.
        """
        return self.high_watermark >= self.epoch_start_offset

    # ---- follower, hot path ----

    def may_fetch(self, leader_epoch: int) -> bool:
        """True if a fetch may be sent, or its answer used, that belongs to this epoch."""
        return (
            self.role is Role.FOLLOWER
            and leader_epoch == self.leader_epoch
            and self.leader != NO_NODE
            and not self.truncating
        )

    def replicated(self, log_end_offset: int, leader_high_watermark: int) -> int | None:
        """Took over the leader's batches and its HW, in an epoch that `may_fetch` allowed."""
        assert self.role is Role.FOLLOWER
        self.log_end_offset = log_end_offset
        high_watermark = min(leader_high_watermark, log_end_offset)
        if high_watermark <= self.high_watermark:
            return None
        self.high_watermark = high_watermark
        return high_watermark

    # ---- both ----

    def log_start_moved(self, log_start_offset: int) -> None:
        """Records before the offset, at most the HW, were deleted; the leader's decision."""
        assert log_start_offset <= self.high_watermark
        self.log_start_offset = max(self.log_start_offset, log_start_offset)

    # ---- rules ----

    def _advance(self) -> int | None:
        """Moves the HW to the smallest LEO over the maximal ISR; never back (KIP-497, KIP-966).

        Nothing is committed while the committed ISR is below min.insync.replicas: who left it
        then is still an eligible leader.
        """
        if self.under_min_isr:
            return None
        candidate = self.log_end_offset
        for follower in self.progress:
            if follower.log_end_offset < candidate and (follower.in_maximal_isr or follower.near):
                candidate = follower.log_end_offset
        if candidate <= self.high_watermark:
            return None
        self.high_watermark = candidate
        return candidate

    def _may_join(self, follower: FollowerProgress) -> bool:
        return follower.node not in self.ineligible and not follower.in_maximal_isr

    def _can_join(self, follower: FollowerProgress) -> bool:
        """Has everything committed and the start of this epoch, so that nobody waits for it."""
        offset = follower.log_end_offset
        return (
            offset >= self.high_watermark
            and offset >= self.epoch_start_offset
            and follower.node not in self.isr.committed
            and follower.node not in self.ineligible
        )

    def _truncation_offset(self, epoch: int, end_offset: int) -> int:
        return truncation_offset(self.epochs, self.log_end_offset, epoch, end_offset)

    def _node_epoch_of(self, node: int) -> int:
        return self.node_epoch if node == self.node else self.followers[node].node_epoch

    def _mark_maximal(self) -> None:
        maximal = self.isr.maximal
        for follower in self.progress:
            follower.in_maximal_isr = follower.node in maximal
            follower.near = follower.near and not follower.in_maximal_isr

    def _set_replicas(self, replicas: tuple[int, ...]) -> None:
        self.replicas = replicas
        self.followers = {
            node: self.followers.get(node) or FollowerProgress(node)
            for node in replicas
            if node != self.node
        }
        self.progress = tuple(self.followers.values())

    def _forget_followers(self) -> None:
        self.followers = {}
        self.progress = ()
        self.isr_due = False

    @staticmethod
    def _moved(high_watermark: int | None) -> list[Effect]:
        if high_watermark is None:
            return []
        return [HighWatermarkMoved(high_watermark=high_watermark)]
