"""Known bugs, each put in by a subclass or by another function; product code has no switches.

`make sim-bugs` shows that each is found within 1 000 seeds, `make test` replays the recorded ones.
A simulation that finds them no more is broken.
"""

from __future__ import annotations

from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.divergence import UNKNOWN_EPOCH
from highwater.partition.core.followers import FollowerProgress
from highwater.partition.core.producers import ACCEPT
from highwater.partition.core.repair import refuse_range
from highwater.partition.core.replica import ACKS_ALL, Replica
from highwater.partition.core.transitions import Role
from tests.sim.bug import Bug
from tests.sim.controller import Published
from tests.sim.controller_bugs import (
    alters_keeping_the_epoch,
    alters_without_asking,
    alters_without_epoch,
    calls_back_without_asking,
    elects_anybody,
    elects_without_asking,
    keeps_eligible_leaders,
    keeps_the_epoch,
    moves_at_once,
    never_doubts,
    reassigns_keeping_the_epoch,
    reassigns_without_asking,
    trusts_boot_ids,
)
from tests.sim.gateways import Gateway
from tests.sim.late_bugs import (
    AcknowledgesBeforeTheWrite,
    AnswersLateWritesUnflushed,
    AnswersWhatIsBeingWritten,
    CommitsBeforeTheWrite,
    CountsUnflushed,
    CountsUnkeptStarts,
    DeletesAlone,
    FetchesBeforeTheFlush,
    ForgetsEndedFlushes,
    ForgetsLateWrites,
    HoldsForWhoeverWasNamed,
    KeepsEpochsBeforeLateWrites,
    KeepsQuietOfOtherFlushes,
    LeadsBeforeLateWrites,
    LeavesLateWritesUnflushed,
    NeverLeadsOn,
    SaysItIsReady,
    with_asked,
    with_disk,
)
from tests.sim.log_producers import Entry
from tests.sim.node import NodeProcess
from tests.sim.txn.known_bugs import TRANSACTIONAL_BUGS

# ---- replicas ----


class TruncatesToHighWatermark(Replica):
    """A new follower cuts its log at its own high watermark and takes the rest as it comes."""

    __slots__ = ()

    def handle(self, event: on.Event) -> list[effect.Effect]:
        effects = super().handle(event)
        if any(isinstance(e, effect.StartFollowing) for e in effects):
            effects.insert(-1, effect.TruncateLog(offset=self.high_watermark))
        return effects

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        return None if fetch_offset <= self.log_end_offset else UNKNOWN_EPOCH


class CountsCommittedIsr(Replica):
    """The HW waits for the committed ISR only, although a proposal may be committed already."""

    __slots__ = ()

    def _advance(self) -> int | None:
        if self.under_min_isr:
            return None
        ends = [f.log_end_offset for f in self.progress if f.node in self.isr.committed]
        candidate = min([self.log_end_offset, *ends])
        if candidate <= self.high_watermark:
            return None
        self.high_watermark = candidate
        return candidate


class ChecksNoEpochOnFetch(Replica):
    """A leader serves and counts fetches of any leader epoch."""

    __slots__ = ()

    def refuse_fetch(self, current_leader_epoch: int) -> int:
        return super().refuse_fetch(-1)

    def may_fetch(self, leader_epoch: int) -> bool:
        return super().may_fetch(self.leader_epoch)


class FollowsAhead(Replica):
    """A follower takes the leader's high watermark although its log does not reach it."""

    __slots__ = ()

    def replicated(
        self, log_end_offset: int, counted_end_offset: int, leader_high_watermark: int
    ) -> int | None:
        super().replicated(log_end_offset, counted_end_offset, leader_high_watermark)
        self.high_watermark = max(self.high_watermark, leader_high_watermark)
        return self.high_watermark


class CommitsBelowMinIsr(Replica):
    """The HW moves although the ISR is below the minimum, so eligible leaders lack records."""

    __slots__ = ()

    def _is_under_min_isr(self) -> bool:
        return False


class AppendsAfterResigning(Replica):
    """A leader that hands over takes appends until it hears who leads."""

    __slots__ = ()

    def handle(self, event: on.Event) -> list[effect.Effect]:
        effects = super().handle(event)
        if self.role is Role.LEADER:
            self.append_epoch = self.leader_epoch
        return effects


class CountsAttemptsAnew(Replica):
    """Attempts are numbered from 1 in each term, so that late answers fit others' attempts."""

    __slots__ = ()

    def _changed(self, event: on.PartitionChanged) -> list[effect.Effect]:
        if event.leader_epoch > self.leader_epoch:
            self.isr.attempts = 0
        return super()._changed(event)


class TakesIsrWithoutItsMinimum(Replica):
    """The state in an answer is taken over although min.insync.replicas may have changed."""

    __slots__ = ()

    def _answered(self, event: on.IsrAnswered) -> list[effect.Effect]:
        ours, before = event.leader_epoch == self.leader_epoch, self.isr.committed
        if ours and self.isr.commit(event.partition_epoch, event.isr):
            return self._isr_moved(before)
        return super()._answered(event)


class AdmitsAnybody(Replica):
    """A follower joins the ISR with its first fetch."""

    __slots__ = ()

    def _can_join(self, follower: FollowerProgress) -> bool:
        return (
            follower.log_end_offset >= 0
            and follower.node not in self.isr.committed
            and follower.node not in self.ineligible
        )


class CutsTwice(Replica):
    """An answer that diverges is carried out whenever it comes, also a second time."""

    __slots__ = ()

    def _fetched_so(self, event: on.Diverged | on.OutOfRange) -> bool:
        return self.may_fetch(event.leader_epoch)


class HighWatermarkGoesBack(Replica):
    """The HW is what the waited-for followers have, also where that is less than it was."""

    __slots__ = ()

    def _advance(self) -> int | None:
        moved = super()._advance()
        ends = [f.log_end_offset for f in self.progress if f.in_maximal_isr or f.near]
        lowest = min(ends, default=self.high_watermark)
        if self.under_min_isr or not self.log_start_offset <= lowest < self.high_watermark:
            return moved
        self.high_watermark = lowest
        return lowest


# ---- shells ----


class TakesImagesAsTheyCome(Gateway):
    """A gateway takes every image that arrives, also one that was overtaken by a newer one."""

    def on_image(self, image: Published) -> None:
        self.image = image


class AcknowledgesAtOnce(NodeProcess):
    """acks=all is answered as soon as the leader has the record."""

    def on_produce(
        self, client: int, request: int, epoch: int, acks: int, value: int, pid: int, sequence: int
    ) -> None:
        before = self.log.end
        super().on_produce(client, request, epoch, acks, value, pid, sequence)
        if acks == ACKS_ALL and self.log.end > before:
            self.world.observer.acknowledges(self, before)


class AcknowledgesRepetitions(NodeProcess):
    """A batch that is in the log already is acknowledged at once, committed or not."""

    def on_produce(
        self, client: int, request: int, epoch: int, acks: int, value: int, pid: int, sequence: int
    ) -> None:
        if pid >= 0 and not self.replica.refuse_append(epoch, acks):
            known = self.log.producers.check(pid, 0, sequence, sequence)
            if known > ACCEPT:
                self.world.observer.acknowledges(self, known)
        super().on_produce(client, request, epoch, acks, value, pid, sequence)


class CountsDivergingFetches(NodeProcess):
    """A follower's offset counts although its log is another one."""

    def on_fetch(
        self, node: int, incarnation: int, node_epoch: int, epoch: int, offset: int, last: int,
        kept_log_start: int,
    ) -> None:  # fmt: skip
        replica = self.replica
        if not replica.refuse_follower(node, node_epoch, epoch):
            known = min(offset, replica.log_end_offset)
            if replica.follower_fetched(replica.followers[node], known, self.now_ms()) is not None:
                self.high_watermark_moved()
        super().on_fetch(node, incarnation, node_epoch, epoch, offset, last, kept_log_start)


class ForgetsProducers(NodeProcess):
    """Followers take batches over without noting whose they are."""

    def on_fetched(
        self, leader_epoch: int, offset: int, entries: list[Entry], high: int, start: int
    ) -> None:
        super().on_fetched(leader_epoch, offset, entries, high, start)
        if self.replica.role is Role.FOLLOWER:
            self.log.producers.clear()


class HandsOverTooSoon(NodeProcess):
    """A leader that stops does not wait for the logs of the replicas that may lead."""

    @property
    def handed_over(self) -> bool:
        return True


class VouchesThoughDamaged(NodeProcess):
    """A damaged replica proves that another may step back for it, and steps back, too."""

    def on_who_is_whole(self, node: int, incarnation: int, found: tuple[int, int]) -> None:
        if not refuse_range(self.replica, found[0]):
            proof = (self.node, found)
            self.world.network.send(self.node, node, "on_proof", proof, incarnation=incarnation)


class KeepsEmptyEpochs(NodeProcess):
    """A cut at the end of the log leaves epochs that begin there: the logs diverge for ever."""

    def _cut(self, offset: int) -> None:
        if offset < self.log.end:
            super()._cut(offset)
        else:
            self._truncated()


class ServesAboveHighWatermark(NodeProcess):
    """Consumers read to the end of the log."""

    def on_consume(self, client: int, request: int, epoch: int, offset: int, last: int) -> None:
        replica = self.replica
        if not replica.refuse_fetch(epoch) and self._compare(offset, last) is None:
            entries = self.log.read(offset, self.log.end)
            self.world.observer.serves(self, offset, entries)
        super().on_consume(client, request, epoch, offset, last)


BUGS = (
    Bug(
        name="truncates-to-high-watermark",
        seed=2,
        replica=TruncatesToHighWatermark,
        source="KIP-101",
    ),
    Bug(name="counts-committed-isr", seed=6, replica=CountsCommittedIsr, source="KIP-497"),
    Bug(name="checks-no-epoch-on-fetch", seed=172, replica=ChecksNoEpochOnFetch, source="KIP-320"),
    Bug(name="follows-ahead", seed=0, replica=FollowsAhead, source="R5"),
    Bug(name="commits-below-min-isr", seed=1, replica=CommitsBelowMinIsr, source="KIP-966"),
    Bug(
        name="counts-attempts-anew",
        seed=288,
        replica=CountsAttemptsAnew,
        source="found by seed 288",
    ),
    Bug(
        name="takes-isr-without-its-minimum",
        seed=105_640,
        rare=True,
        replica=TakesIsrWithoutItsMinimum,
        source="KIP-966, found by the seed",
    ),
    Bug(name="admits-anybody", seed=0, replica=AdmitsAnybody, source="R3"),
    Bug(name="cuts-twice", seed=246, replica=CutsTwice, source="R7"),
    Bug(name="high-watermark-goes-back", seed=2, replica=HighWatermarkGoesBack, source="R4"),
    Bug(name="acknowledges-at-once", seed=0, process=AcknowledgesAtOnce, source="R1"),
    Bug(name="acknowledges-repetitions", seed=5, process=AcknowledgesRepetitions, source="R1, R10"),
    Bug(name="counts-diverging-fetches", seed=50, process=CountsDivergingFetches, source="KIP-595"),
    Bug(name="forgets-producers", seed=6, process=ForgetsProducers, source="R10"),
    Bug(
        name="keeps-empty-epochs",
        seed=7,
        process=KeepsEmptyEpochs,
        source="R7, R16, UnifiedLog.truncateTo",
    ),
    Bug(
        name="appends-after-resigning",
        seed=1,
        replica=AppendsAfterResigning,
        source="R1, an orderly stop",
    ),
    Bug(
        name="hands-over-too-soon",
        seed=1,
        process=HandsOverTooSoon,
        source="R1, an orderly stop",
    ),
    Bug(name="serves-above-high-watermark", seed=0, process=ServesAboveHighWatermark, source="R9"),
    Bug(
        name="alters-without-epoch",
        seed=5,
        alter_partitions=alters_without_epoch,
        source="R12, KIP-497",
    ),
    Bug(name="takes-images-as-they-come", seed=1, gateway=TakesImagesAsTheyCome, source="R17"),
    Bug(name="elects-anybody", seed=1, change_nodes=elects_anybody, source="R1"),
    Bug(name="keeps-the-epoch", seed=0, change_nodes=keeps_the_epoch, source="R6"),
    Bug(name="never-doubts", seed=1, has_its_tail=never_doubts, source="KIP-966"),
    Bug(name="trusts-boot-ids", seed=1, has_its_tail=trusts_boot_ids, source="KAFKA-14139"),
    Bug(
        name="keeps-the-epoch-when-replicas-go",
        seed=123,
        alter_partitions=alters_keeping_the_epoch,
        alter_reassignments=reassigns_keeping_the_epoch,
        source="R3, Kafka's PartitionChangeBuilder",
    ),
    Bug(name="moves-at-once", seed=3, alter_reassignments=moves_at_once, source="R1, KIP-455"),
    Bug(
        name="keeps-eligible-leaders",
        seed=213,
        after_min_isr_change=keeps_eligible_leaders,
        source="KIP-966",
    ),
    Bug(name="counts-unflushed", seed=2, replica=CountsUnflushed, source="R1, flush.messages"),
    Bug(
        name="fetches-before-the-flush",
        seed=2,
        replica=FetchesBeforeTheFlush,
        source="R1, flush.messages",
    ),
    Bug(
        name="forgets-ended-flushes",
        seed=2,
        replica=ForgetsEndedFlushes,
        source="R16, flush.messages",
    ),
    Bug(
        name="leads-before-late-writes",
        seed=16,
        replica=LeadsBeforeLateWrites,
        source="R7, a disk that hangs",
    ),
    Bug(
        name="keeps-epochs-before-late-writes",
        seed=120,
        replica=KeepsEpochsBeforeLateWrites,
        source="R7, a disk that hangs",
    ),
    Bug(
        name="forgets-late-writes",
        seed=16,
        replica=ForgetsLateWrites,
        source="R5, a disk that hangs",
    ),
    Bug(
        name="acknowledges-before-the-write",
        seed=0,
        process=with_disk(AcknowledgesBeforeTheWrite),
        source="R3, a disk that hangs",
    ),
    Bug(
        name="commits-before-the-write",
        seed=0,
        process=with_disk(CommitsBeforeTheWrite),
        source="R1, a disk that hangs",
    ),
    Bug(
        name="leaves-late-writes-unflushed",
        seed=56,
        process=with_disk(LeavesLateWritesUnflushed),
        answers=AnswersLateWritesUnflushed,
        source="R16, flush.messages on a disk that hangs",
    ),
    Bug(
        name="answers-what-is-being-written",
        seed=97,
        answers=AnswersWhatIsBeingWritten,
        source="R1, found when the simulation began to run AppendAnswers",
    ),
    Bug(
        name="keeps-quiet-of-other-flushes",
        seed=153,
        replica=KeepsQuietOfOtherFlushes,
        source="R16, found when the simulation began to run AppendAnswers",
    ),
    Bug(
        name="holds-for-whoever-was-named",
        seed=68,
        process=with_asked(HoldsForWhoeverWasNamed),
        source="R16, a hand-over on request",
    ),
    Bug(
        name="never-leads-on",
        seed=31,
        process=with_asked(NeverLeadsOn),
        source="R16, a hand-over on request",
    ),
    Bug(
        name="says-it-is-ready",
        seed=68,
        process=with_asked(SaysItIsReady),
        source="R1, a hand-over on request",
    ),
    Bug(
        name="removes-leaders-without-asking",
        seed=54,
        alter_partitions=alters_without_asking,
        alter_reassignments=reassigns_without_asking,
        source="R1, a reassignment that removes the leader",
    ),
    Bug(
        name="elects-without-asking",
        seed=165,
        change_nodes=elects_without_asking,
        source="R1, a reassignment that removes the leader",
    ),
    Bug(
        name="calls-back-without-asking",
        seed=237,
        alter_reassignments=calls_back_without_asking,
        source="R1, a reassignment that is called back",
    ),
    Bug(
        name="vouches-though-damaged",
        seed=20,
        process=VouchesThoughDamaged,
        source="R1, R13, found by seed 3605",
    ),
    Bug(name="counts-unkept-starts", seed=10, replica=CountsUnkeptStarts, source="R18"),
    Bug(name="deletes-alone", seed=10, replica=DeletesAlone, source="R18, KIP-107"),
    *TRANSACTIONAL_BUGS,
)
