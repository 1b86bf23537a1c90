"""Produce of one partition while its leader moves: which batches to hold, answer or send.

Pure state (decision 14): takes events, gives decisions. Batches of one partition stay in order,
which keeps the order of each connection. While any batch is held, later batches wait behind it, and
no batch is sent to a new leader while the old one may still answer.

A refusal is held only if nothing sent later can get into the log before it:
- the node knows a newer epoch than the group's, so it refuses all later groups in that epoch; or
- no other group is in flight (the node may be behind the gateway, and accept the next group).
Any other refusal goes to the client, and so do later refusals until no group is in flight; held
batches of the same idempotent producers are then answered, too (`answered`). So does
a refusal by a leader that names itself in the group's own epoch: it has no session with the
controller (`acks_1_needs_session`), and batches that it accepts must not wait behind refused ones.

An earlier leader may or may not have replicated a group (it stopped leading before the commit, it
died, it is cut off). Idempotent batches are sent to the next leader, whose log knows which it has;
the other batches of the group are answered, as their outcome is unknown.

A new leader may learn of its election later than the gateway, so it first gets one group alone, as
a probe. The others follow once it has accepted that one. Until then the leader is not `trusted`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from highwater.hop.append import (
    OUTCOME_APPENDED,
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    AppendGatherer,
    AppendGroup,
    AppendOwner,
    AppendRoute,
    AppendSink,
    Batch,
    Failure,
    TransactionalWrite,
    tell_sinks,
)
from highwater.hop.append_expiry import (
    AppendExpiry,
    answer_others,
    any_idempotent,
    drop_answered,
    not_sent,
    unknown,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import LeaderEpoch


class Refusal(Enum):
    """Why a group may be sent again."""

    MOVED = "the node knows a newer epoch; a newer image will come"
    BEHIND = "the node does not lead yet, or not any more, and knows no better"
    UNKNOWN = "the link or the leader is gone; the idempotent batches may be sent again"


class HoldLedger:
    """The bytes that all partitions of a gateway hold together."""

    __slots__ = ("bytes_max", "nbytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.nbytes = 0


NO_EPOCH: Final = -1
NO_DEADLINE_MS: Final = -1
"""A time before all deadlines."""
_SENT_AGAIN: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
}


class PartitionHold:
    """See the module. `epoch` and `led` are from the gateway's image of the partition."""

    __slots__ = (
        "_earlier",
        "_gatherer",
        "_groups",
        "_ledger",
        "_passing",
        "_present",
        "_probe",
        "_refused_epoch",
        "_retry",
        "_route",
        "_trusted",
        "epoch",
        "led",
    )

    def __init__(
        self,
        route: AppendRoute,
        ledger: HoldLedger,
        *,
        owner: AppendOwner | None,
        led: bool,
        trusted: bool = True,
    ) -> None:
        """`trusted`: the leader accepted groups in this epoch. `owner` owns its groups."""
        self.epoch: int = route.leader_epoch
        self.led = led
        self._trusted = trusted
        self._ledger = ledger
        self._present: set[AppendGroup] = set()
        """Groups that went to the present leader and are not completed."""
        self._earlier: set[AppendGroup] = set()
        """Groups that went to an earlier leader and are not completed."""
        self._groups: list[AppendGroup] = []
        """Groups that were refused; later batches are in the gatherer."""
        self._probe: AppendGroup | None = None
        """The last group that was sent alone; it is before all held groups."""
        self._refused_epoch = NO_EPOCH
        self._retry = True
        """True if the present epoch may be tried again."""
        self._passing = False
        # Not the link's route, which has an open group there.
        self._route = AppendRoute(
            topic_id=route.topic_id,
            partition=route.partition,
            leader_epoch=route.leader_epoch,
            instance=route.instance,
        )
        self._gatherer = AppendGatherer(_never, _never, owner)
        self._gatherer.hold()

    # ---- queries of the path to the link ----

    @property
    def straight(self) -> bool:
        """True if batches may go to the leader at once; else call `append`."""
        return self.led and self._trusted and not self._earlier and not self.holding

    @property
    def holding(self) -> bool:
        """True if anything is held."""
        return bool(self._groups) or self._gatherer.queued_bytes > 0

    @property
    def waits_for_earlier(self) -> bool:
        """True while an earlier leader still has to answer."""
        return bool(self._earlier)

    @property
    def over(self) -> bool:
        """True if this hold has no state that a new one, made when needed, would lack."""
        if self.holding or self._earlier or self._passing:
            return False
        return self.straight or not self._present

    @property
    def may_retry(self) -> bool:
        """True if the present leader refused, but may accept later."""
        return self._ready and self._refused_epoch >= self.epoch and self._retry

    @property
    def _ready(self) -> bool:
        return self.led and self.holding and not self._earlier and not self._present

    def append(
        self,
        acks: int,
        batch: Batch,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
        transaction: TransactionalWrite | None = None,
    ) -> None:
        """Holds a batch behind all earlier ones; if there is no room, answers all of them."""
        self._gatherer.append(
            self._route, acks, batch, nbytes, sink, index, deadline_ms, transaction
        )
        self._ledger.nbytes += nbytes
        if self._ledger.nbytes > self._ledger.bytes_max:
            self.give_up("too much waits for new leaders")

    # ---- events ----

    def sent(self, group: AppendGroup) -> None:
        """A group was sent to the present leader."""
        self._present.add(group)

    def completed(self, group: AppendGroup, failures: Mapping[int, Failure] | None) -> bool:
        """Takes the result of a group that was sent; True if it is held instead of answered."""
        was_present = group in self._present
        self._forget(group)
        left = len(self._present) + len(self._earlier)
        refusal = refusal_of(group, failures) if failures else None
        hold = refusal is not None and not self._passing
        if hold and (not self._groups or group is self._probe) and refusal is Refusal.BEHIND:
            hold = left == 0
        if hold and refusal is not None:
            if failures and refusal is Refusal.UNKNOWN:
                answer_others(group, next(iter(failures.values())))
            self._refused(group, refusal)
        elif refusal is not None:
            self._passing = True
            self._probe_is_over(group)
        elif was_present and not (failures and _is_silence(failures)):
            self._trust()
        self._end_passing()
        return hold

    def answered(self, group: AppendGroup, failures: Mapping[int, Failure]) -> None:
        """Fails held batches behind failed ones that their idempotent producers will send again.

        Sent now, they would be out of order at the leader, and for that a client bumps its epoch; it
        then sends all batches in doubt again, also other partitions', as new ones (librdkafka).
        """
        expiry = AppendExpiry(NO_DEADLINE_MS, "an earlier batch of the producer was refused")
        if expiry.doom(group, [place for place, f in failures.items() if _is_sent_again(f)]):
            self._take_out(expiry)

    def recalled(self, group: AppendGroup) -> None:
        """Takes back a group from a leader that will not answer."""
        self._forget(group)
        attempted = group.attempted
        reason = "the leader is gone and did not answer"
        failure = unknown(reason) if attempted else not_sent(reason)
        if self._passing or (attempted and not any_idempotent(group)):
            self._probe_is_over(group)
            tell_all(group, failure)
        else:
            if attempted:
                group.doubtful = True
                answer_others(group, failure)
            self._hold(group)
        self._end_passing()

    def moved(self, epoch: int, *, led: bool) -> None:
        """A newer image has another leader, epoch or link to the leader. Epochs never go back."""
        assert epoch >= self.epoch
        self._earlier |= self._present
        self._present.clear()
        self.epoch = epoch
        self.led = led
        self._trusted = False

    def take(self, *, retry: bool = False) -> list[AppendGroup]:
        """The groups to send to the present leader now, in order; they count as sent.

        Call it after `append`, `moved` and `completed`, and at times with `retry`.
        """
        if not self._ready:
            return []
        if self._refused_epoch >= self.epoch and not (retry and self._retry):
            return []
        groups = self._take_all() if self._trusted else [self._take_probe()]
        for group in groups:
            group.leader_epoch = LeaderEpoch(self.epoch)
        self._present.update(groups)
        return groups

    def expire(self, now_ms: int) -> None:
        """Answers batches that waited too long, and batches that would overtake them.

        Also forgets sent groups that lost all their batches in this way.
        """
        self._present = {group for group in self._present if group.batches}
        self._earlier = {group for group in self._earlier if group.batches}
        self._end_passing()
        self._take_out(AppendExpiry(now_ms, "no leader was found in time"))

    def give_up(self, reason: str) -> None:
        """Answers all held batches, in order; clients send them again in that order."""
        for group in self._take_all():
            tell_all(group, unknown(reason) if group.attempted else not_sent(reason))

    def fail(self, failure: Failure) -> None:
        """Answers all held batches with this failure."""
        for group in self._take_all():
            tell_all(group, failure)

    # ---- inside ----

    def _take_out(self, expiry: AppendExpiry) -> None:
        before = self._nbytes()
        for group in self._groups:
            expiry.take_unsent(group)
        self._groups = [group for group in self._groups if group.batches]
        self._gatherer.prune(expiry.take_unsent)
        self._ledger.nbytes -= before - self._nbytes()
        self._forget_refusal()
        expiry.tell()

    def _forget(self, group: AppendGroup) -> None:
        self._present.discard(group)
        self._earlier.discard(group)

    def _end_passing(self) -> None:
        if not self._present and not self._earlier:
            self._passing = False

    def _probe_is_over(self, group: AppendGroup) -> None:
        if group is self._probe:
            self._probe = None

    def _trust(self) -> None:
        self._trusted = True
        self._probe = None
        self._refused_epoch = NO_EPOCH
        self._retry = True

    def _refused(self, group: AppendGroup, refusal: Refusal) -> None:
        if not self._groups or group is self._probe:
            self._retry = True
        self._retry = self._retry and refusal is not Refusal.MOVED
        self._refused_epoch = max(self._refused_epoch, group.leader_epoch)
        self._trusted = False
        group.doubtful = group.doubtful or refusal is Refusal.UNKNOWN
        self._hold(group)

    def _hold(self, group: AppendGroup) -> None:
        drop_answered(group)
        if not group.batches:
            self._probe_is_over(group)
            return
        # This refusal says nothing about an earlier leader.
        group.attempted = group.doubtful
        if group is self._probe:
            self._probe = None
            self._groups.insert(0, group)
        else:
            self._groups.append(group)
        self._ledger.nbytes += group.nbytes
        if self._ledger.nbytes > self._ledger.bytes_max:
            self.give_up("too much waits for new leaders")

    def _take_probe(self) -> AppendGroup:
        if not self._groups:
            self._groups = self._gatherer.take()
        self._probe = self._groups.pop(0)
        self._ledger.nbytes -= self._probe.nbytes
        return self._probe

    def _take_all(self) -> list[AppendGroup]:
        self._ledger.nbytes -= self._nbytes()
        groups, self._groups = self._groups, []
        groups += self._gatherer.take()
        self._forget_refusal()
        return groups

    def _forget_refusal(self) -> None:
        if not self._groups:
            self._refused_epoch = NO_EPOCH
            self._retry = True

    def _nbytes(self) -> int:
        return sum(group.nbytes for group in self._groups) + self._gatherer.queued_bytes


def refusal_of(group: AppendGroup, failures: Mapping[int, Failure]) -> Refusal | None:
    """Why the group may be sent again, or None if it must not be."""
    if len(failures) < len(group.batches):
        return None
    found = list(failures.values())
    if all(
        f.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and f.outcome == OUTCOME_NOT_APPENDED
        for f in found
    ):
        known = max(f.leader_epoch for f in found)
        if known == group.leader_epoch and all(f.leader >= 0 for f in found):
            return None
        return Refusal.MOVED if known > group.leader_epoch else Refusal.BEHIND
    lost = all(
        f.error_code == ErrorCode.REQUEST_TIMED_OUT and f.outcome == OUTCOME_UNKNOWN for f in found
    )
    return Refusal.UNKNOWN if lost and any_idempotent(group) else None


def _is_silence(failures: Mapping[int, Failure]) -> bool:
    """True if the failures are not from a leader that still leads."""
    return any(
        f.error_code == ErrorCode.REQUEST_TIMED_OUT and f.outcome == OUTCOME_UNKNOWN
        for f in failures.values()
    )


def _is_sent_again(failure: Failure) -> bool:
    """True if a client sends the batch again, and the leader may not have it."""
    return failure.error_code in _SENT_AGAIN and failure.outcome != OUTCOME_APPENDED


def tell_all(group: AppendGroup, failure: Failure) -> None:
    """Gives the same failure to every sink now, without asking the group's owner."""
    n = len(group.batches)
    tell_sinks(group, [-1] * n, dict.fromkeys(range(n), failure))


def _never(_: object) -> None:
    raise AssertionError("held batches leave only by `take`")
