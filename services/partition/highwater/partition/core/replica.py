"""The replica state machine: one replica of one partition, without I/O and without a clock.

Control events go through `handle`, which returns effects in the order in which they have to be
carried out. Appends and fetches are plain calls with numbers (the hot path: no object per call);
they return the new high watermark, or None if it did not move. Sources: Kafka's `Partition` and
`AbstractFetcherThread`; KIP-101, 279, 320, 497, 595, 903, 966.
"""

from collections.abc import Callable
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import followers
from highwater.partition.core import replica_events as on
from highwater.partition.core.divergence import bounded, cut_after, divergence, is_about
from highwater.partition.core.followers import FollowerProgress
from highwater.partition.core.isr import IsrState
from highwater.partition.core.leader_epochs import LeaderEpochView
from highwater.partition.core.refusals import refuse_epoch, refuse_role
from highwater.partition.core.replica_effects import (
    AdvanceLogStart,
    BeginEpochBehind,
    Effect,
    ProposeIsr,
    StartFollowing,
    StartLeading,
    StopFollowing,
    StopLeading,
    moved,
)
from highwater.partition.core.succession import has_successor
from highwater.partition.core.transitions import TRANSITIONS, IllegalTransitionError, Role

NO_NODE: Final = -1
NO_EPOCH: Final = -1
ACKS_ALL: Final = -1

NO_APPENDS: Final = -2
"""An epoch that no append names."""


class Replica:
    """One node's replica, from opening its log until that is closed, deleted or fails.

    Transitions, with what triggers them:

    - UNASSIGNED, FOLLOWER, LEADER -> LEADER: `PartitionChanged` with a newer leader epoch and
      this node as the leader. An epoch is led by one incarnation of one node, once.
    - UNASSIGNED, FOLLOWER, LEADER -> FOLLOWER: `PartitionChanged` with a newer leader epoch and
      another leader, or none.
    - UNASSIGNED, FOLLOWER, LEADER -> OFFLINE: `LogFailed`.
    - any -> REMOVED: `ReplicaRemoved`. Nothing leads out of it, nor out of OFFLINE but this.

    Its view of the cluster is its node's: the newest partition record that it was given, and as
    a leader the followers' fetches. A record older than one that was seen changes nothing.

    Attributes are for reading: events and the calls below change them, nobody else.
    """

    __slots__ = ("_in_session", "_lag_ms_max", "append_epoch", "counted_end_offset",
                 "epoch_start_offset", "epochs", "followers", "high_watermark", "ineligible",
                 "isr", "isr_due", "kept_log_start", "leader", "leader_epoch", "log_end_offset",
                 "log_start_offset", "min_isr", "node", "node_epoch", "progress", "replicas",
                 "resigned", "role", "truncating", "under_min_isr")  # fmt: skip

    def __init__(
        self,
        *,
        node: int,
        node_epoch: int,
        lag_ms_max: int,
        epochs: LeaderEpochView,
        log_start_offset: int,
        log_end_offset: int,
        high_watermark: int,
        in_session: Callable[[], bool] | None = None,
    ) -> None:
        """`epochs` belongs to the log, which changes it; here it is only read. `high_watermark` is the
        checkpointed one.

        `node_epoch` is -1 until the node is registered. `in_session` says whether the controller is
        known to count this node as alive; None if appends with acks 0 and 1 do not depend on it.
        """
        self.node = node
        self.node_epoch = node_epoch
        self._lag_ms_max = lag_ms_max
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.kept_log_start = 0
        """Where the log begins at the earliest after a crash; what is on disk is not known at first."""
        self.log_end_offset = log_end_offset
        self.counted_end_offset = log_end_offset
        """How much of the log this replica may claim to have: what waits for a flush that
        flush.messages asks for is not claimed, neither as a leader nor in a fetch."""
        self.high_watermark = bounded(high_watermark, log_start_offset, log_end_offset)
        self.role = Role.UNASSIGNED
        self.leader = NO_NODE
        self.leader_epoch = NO_EPOCH
        self._in_session = in_session
        self.append_epoch = NO_APPENDS
        """The epoch in which appends are taken, `NO_APPENDS` while none are."""
        self.resigned = False
        """Nothing is appended in this epoch any more, and another replica is to lead the next."""
        self.under_min_isr = False
        """True for a leader that can commit nothing, because the ISR is too small (KIP-966)."""
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
        takes_appends = self.role is Role.LEADER and not self.resigned
        self.append_epoch = self.leader_epoch if takes_appends else NO_APPENDS
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
        self.resigned = False
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
        followers.begin_terms(self.progress, self.isr.maximal, event.now_ms)
        self.epoch_start_offset = self.log_end_offset
        leading = StartLeading(leader_epoch=self.leader_epoch, start_offset=self.log_end_offset)
        return [leading, *moved(self._advance())]

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

    def _note_leader(self, event: on.PartitionChanged) -> list[Effect]:
        """A replica whose log has failed takes no role, but tells clients who leads."""
        if event.leader_epoch > self.leader_epoch:
            self.leader = event.leader
            self.leader_epoch = event.leader_epoch
            self.resigned = False
        return []

    def _registered(self, event: on.NodeRegistered) -> list[Effect]:
        self.node_epoch = event.node_epoch
        return []

    def _resign(self, _: on.HandOverAsked) -> list[Effect]:
        """Takes no more appends in this epoch, if another replica could lead the next one."""
        self.resigned = self.resigned or has_successor(self.isr, self.node, self.ineligible)
        return []

    def _resume(self, _: on.HandOverGivenUp) -> list[Effect]:
        self.resigned = False
        return []

    def _eligibility(self, event: on.IneligibleChanged) -> list[Effect]:
        self.ineligible = event.nodes
        followers.exclude(self.progress, event.nodes)
        return moved(self._advance()) if self.role is Role.LEADER else []

    def _lag(self, event: on.LagChecked) -> list[Effect]:
        """Proposes an ISR without followers that fell behind; others join when they fetch."""
        end, now_ms = self.counted_end_offset, event.now_ms
        behind = followers.lagging(self.progress, self._may_join, end, now_ms, self._lag_ms_max)
        if not self.isr.may_propose:
            return moved(self._advance())
        staying = tuple(node for node in self.isr.committed if node not in behind)
        return self._propose(staying) + moved(self._advance())

    def _due(self, _: on.IsrDue) -> list[Effect]:
        self.isr_due = False
        joining = tuple(f.node for f in self.progress if self._can_join(f))
        return self._propose(self.isr.committed + joining) if self.isr.may_propose else []

    def _propose(self, wanted: tuple[int, ...]) -> list[Effect]:
        """One proposal; also to settle an unanswered one, since any answer moves the partition epoch."""
        if wanted == self.isr.committed and not self.isr.doubtful:
            return []
        attempt = self.isr.propose(wanted)
        followers.mark_maximal(self.progress, self.isr.maximal)
        return [
            ProposeIsr(
                attempt=attempt,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.isr.partition_epoch,
                isr=wanted,
                node_epochs=followers.node_epochs(self.followers, wanted, self.node_epoch),
            )
        ]

    def _answered(self, event: on.IsrAnswered) -> list[Effect]:
        isr, before, attempted = self.isr, self.isr.committed, self.isr.maximal
        if (
            event.error_code == 0
            and event.leader_epoch == self.leader_epoch
            and isr.is_next(event.partition_epoch)
        ):
            isr.commit(event.partition_epoch, event.isr)
            return self._isr_moved(before)
        if isr.answered(event.attempt, event.error_code):
            followers.leave_isr(self.progress, attempted, isr.maximal)
        # A refused follower comes again with its next fetch, not at once.
        self.isr_due = isr.doubtful
        followers.mark_maximal(self.progress, self.isr.maximal)
        return moved(self._advance())

    def _unanswered(self, event: on.IsrUnanswered) -> list[Effect]:
        self.isr.unanswered(event.attempt)
        self.isr_due = True
        return []

    def _isr_moved(self, before: tuple[int, ...]) -> list[Effect]:
        """After any change of the committed ISR, which was `before`."""
        self.under_min_isr = self._is_under_min_isr()
        followers.leave_isr(self.progress, before, self.isr.maximal)
        followers.mark_maximal(self.progress, self.isr.maximal)
        self.isr_due = self.isr.doubtful or any(map(self._can_join, self.progress))
        return moved(self._advance())

    def _cut(self, event: on.Diverged | on.OutOfRange) -> list[Effect]:
        known = self._fetched_so(event)
        cut = cut_after(event, self.epochs, self.log_end_offset) if known else None
        self.truncating = cut is not None
        return [] if cut is None else [cut]

    def _fetched_so(self, event: on.Diverged | on.OutOfRange) -> bool:
        """True if the answer is about the log as it is now, and from the present leader."""
        present = self.may_fetch(event.leader_epoch)
        return present and is_about(event, self.epochs, self.log_end_offset)

    def _truncated(self, event: on.LogTruncated) -> list[Effect]:
        self.truncating = False
        start, end = event.log_start_offset, event.log_end_offset
        self.log_start_offset, self.log_end_offset = start, end
        self.kept_log_start = min(self.kept_log_start, start)
        self.counted_end_offset = bounded(self.counted_end_offset, start, end)
        self.high_watermark = bounded(self.high_watermark, start, end)
        return []

    def _end_moved(self, event: on.LogEndMoved) -> list[Effect]:
        self.log_end_offset = event.log_end_offset
        self.counted_end_offset = event.counted_end_offset
        return moved(self._advance()) if self.role is Role.LEADER else []

    def _delete_records(self, event: on.DeleteRecordsAsked) -> list[Effect]:
        """The start never goes back, nor past what is committed."""
        assert event.offset <= self.high_watermark
        if event.offset <= self.log_start_offset:
            return []
        self.log_start_offset = event.offset
        return [AdvanceLogStart(offset=event.offset)]

    def _start_kept(self, event: on.LogStartKept) -> list[Effect]:
        kept = min(event.log_start_offset, self.log_start_offset)
        self.kept_log_start = max(self.kept_log_start, kept)
        return []

    def _written_late(self, event: on.WrittenLate) -> list[Effect]:
        """A leader's epoch has no records yet, since appends wait for the write that ended now."""
        leads, start = self.role is Role.LEADER, event.log_end_offset
        behind = BeginEpochBehind(
            late_epoch=event.leader_epoch,
            late_offset=self.log_end_offset,
            leader_epoch=self.leader_epoch if leads else NO_EPOCH,
            start_offset=start,
        )
        self.log_end_offset, self.counted_end_offset = start, event.counted_end_offset
        if not leads:
            return [behind]
        self.epoch_start_offset = start
        return [behind, *moved(self._advance())]

    def _failed(self, _: on.LogFailed) -> list[Effect]:
        if self.role is Role.LEADER:
            self.resigned = has_successor(self.isr, self.node, self.ineligible)
        return self._end(Role.OFFLINE)

    def _removed(self, _: on.ReplicaRemoved) -> list[Effect]:
        self.leader = NO_NODE
        return self._end(Role.REMOVED)

    def _end(self, role: Role) -> list[Effect]:
        before, self.role = self.role, role
        self._forget_followers()
        effects: dict[Role, Effect] = {Role.LEADER: StopLeading(), Role.FOLLOWER: StopFollowing()}
        return [effects[before]] if before in effects else []

    def _too_late(self, _: object) -> list[Effect]:
        """The event belongs to a role that has ended meanwhile."""
        return []

    # ---- leader, hot path ----

    def refuse_append(self, leader_epoch: int, acks: int) -> int:
        """Kafka's error code for an append that may not be made here and now, 0 if it may.

        A leader that the controller cannot hear may have been replaced. Records that a quorum of
        the ISR has to take are safe all the same, by epoch and ISR; those that nobody else has
        would be lost. So acks 0 and 1 may need a session (NOT_LEADER_OR_FOLLOWER otherwise).
        """
        if leader_epoch != self.append_epoch:
            return refuse_role(self.role, self.leader in (NO_NODE, self.node), self.resigned)
        if acks == ACKS_ALL:
            return ErrorCode.NOT_ENOUGH_REPLICAS if self.under_min_isr else 0
        if self._in_session is None or self._in_session():
            return 0
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def appended(self, log_end_offset: int, counted_end_offset: int) -> int | None:
        """The log ends here now, and counts as far as flush.messages allows. The new HW or None."""
        assert self.role is Role.LEADER
        self.log_end_offset = log_end_offset
        self.counted_end_offset = counted_end_offset
        return self._advance()

    def refuse_fetch(self, current_leader_epoch: int) -> int:
        """Kafka's error code for a read that may not be served here, 0 if it may (KIP-320).

        -1 is a client that does not say; followers always do.
        """
        if self.role is not Role.LEADER:
            return refuse_role(self.role, self.leader in (NO_NODE, self.node), self.resigned)
        return refuse_epoch(current_leader_epoch, self.leader_epoch)

    def refuse_read(self, current_leader_epoch: int) -> int:
        """As `refuse_fetch`, for a consumer that may read at a follower (KIP-392)."""
        if self.role is Role.FOLLOWER:
            return refuse_epoch(current_leader_epoch, self.leader_epoch)
        return self.refuse_fetch(current_leader_epoch)

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
        follower.fetched(offset, self.counted_end_offset, now_ms)
        if not follower.in_maximal_isr:
            recently = now_ms - follower.caught_up_ms <= self._lag_ms_max
            follower.near = recently and self._may_join(follower)
            if self._can_join(follower):
                self.isr_due = True
        return self._advance()

    @property
    def offsets_available(self) -> bool:
        """False while ListOffsets has to answer OFFSET_NOT_AVAILABLE: the HW is still catching up.

        A new leader's HW may lie behind its predecessor's until its followers have fetched.
        """
        return self.high_watermark >= self.epoch_start_offset

    def low_watermark(self) -> int:
        """All live replicas' logs begin here or later, and will after a crash; -1 if unknown."""
        return followers.low_watermark(self.progress, self.ineligible, self.kept_log_start)

    # ---- follower, hot path ----

    def may_fetch(self, leader_epoch: int) -> bool:
        """True if a fetch may be sent, or its answer used, that belongs to this epoch."""
        return (
            self.role is Role.FOLLOWER
            and leader_epoch == self.leader_epoch
            and self.leader != NO_NODE
            and not self.truncating
        )

    def may_ask(self) -> bool:
        """True if a fetch may be sent now: its offset acknowledges everything before it."""
        return self.counted_end_offset == self.log_end_offset and self.may_fetch(self.leader_epoch)

    def replicated(
        self, log_end_offset: int, counted_end_offset: int, leader_high_watermark: int
    ) -> int | None:
        """Took over the leader's batches and its HW, in an epoch that `may_fetch` allowed."""
        assert self.role is Role.FOLLOWER
        self.log_end_offset = log_end_offset
        self.counted_end_offset = counted_end_offset
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

        Nothing is committed while the committed ISR is below min.insync.replicas: replicas that left
        it then are still eligible leaders.
        """
        if self.under_min_isr:
            return None
        candidate = self.counted_end_offset
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
        """True if it has everything committed and the start of this epoch, so that nobody waits."""
        offset = follower.log_end_offset
        return (
            offset >= self.high_watermark
            and offset >= self.epoch_start_offset
            and follower.node not in self.isr.committed
            and follower.node not in self.ineligible
        )

    def _is_under_min_isr(self) -> bool:
        return len(self.isr.committed) < min(self.min_isr, len(self.replicas))

    def _set_replicas(self, replicas: tuple[int, ...]) -> None:
        self.replicas = replicas
        self.under_min_isr = self._is_under_min_isr()
        self.followers = followers.tracked(self.followers, replicas, self.node)
        self.progress = tuple(self.followers.values())

    def _forget_followers(self) -> None:
        self.followers = {}
        self.progress = ()
        self.isr_due = False
        self.under_min_isr = False
