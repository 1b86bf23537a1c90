"""Produce of one partition while its leader moves: what is held, what is answered, what may leave.

Pure state (decision 14): events in, verdicts out. Batches of one partition stay in their order,
which includes the order of each connection: while anything is held, later batches wait behind it,
and nothing leaves for a new leader while the old one may still answer.

A refusal is held only if nothing sent later can get into the log before it:
- the node knows a newer epoch than the group's, so it refuses all that follows in that epoch; or
- nothing else is under way (the node may be behind the gateway, and accept what comes next).
Any other refusal goes to the client, and so do those after it until nothing is under way. So does
that of a leader which says that it leads in the group's own epoch: it has no session with the
controller (`acks_1_needs_session`), and whatever it takes must not wait behind what it refuses.

What an earlier leader may or may not have handed on (it stopped leading before the commit, it died,
it is cut off) goes to the next one if it is idempotent, since that leader's log knows what it has;
the rest of such a group is answered, as nobody can tell.

A new leader may hear of its office later than the gateway, so it gets one group alone, as a probe;
the others follow when it has taken that one. Until then the leader is not `trusted`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from highwater.hop.append import (
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    AppendGatherer,
    AppendGroup,
    AppendOwner,
    AppendRoute,
    AppendSink,
    Failure,
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


class PartitionHold:
    """See the module. `epoch` and `led` are the gateway's image of the partition."""

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
        """`trusted`: the leader has taken groups in this epoch. `owner` is that of the groups that
        are made here.
        """
        self.epoch: int = route.leader_epoch
        self.led = led
        self._trusted = trusted
        self._ledger = ledger
        self._present: set[AppendGroup] = set()
        """Groups that went to the present leader and are not completed."""
        self._earlier: set[AppendGroup] = set()
        """Groups that went to an earlier leader and are not completed."""
        self._groups: list[AppendGroup] = []
        """Refused ones; later batches are in the gatherer."""
        self._probe: AppendGroup | None = None
        """The last group that left alone; it stands before all that is held."""
        self._refused_epoch = NO_EPOCH
        self._retry = True
        """True if the present epoch may be tried again."""
        self._passing = False
        # A route of its own: that of the link has an open group elsewhere.
        self._route = AppendRoute(
            topic_id=route.topic_id,
            partition=route.partition,
            leader_epoch=route.leader_epoch,
            instance=route.instance,
        )
        self._gatherer = AppendGatherer(_never, _never, owner)
        self._gatherer.hold()

    # ---- what the path to the link asks ----

    @property
    def straight(self) -> bool:
        """True if batches go to the leader at once; else they are to be given to `append`."""
        return self.led and self._trusted and not self._earlier and not self.holding

    @property
    def holding(self) -> bool:
        """True if anything is held."""
        return bool(self._groups) or self._gatherer.queued_bytes > 0

    @property
    def waits_for_earlier(self) -> bool:
        """True while results are awaited from an earlier leader."""
        return bool(self._earlier)

    @property
    def over(self) -> bool:
        """True if a new hold, made when one is needed, would know as much."""
        if self.holding or self._earlier or self._passing:
            return False
        return self.straight or not self._present

    @property
    def may_retry(self) -> bool:
        """True if the present leader refused, and could know better the next time."""
        return self._ready and self._refused_epoch >= self.epoch and self._retry

    @property
    def _ready(self) -> bool:
        return self.led and self.holding and not self._earlier and not self._present

    def append(
        self,
        acks: int,
        batch: Any,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
    ) -> None:
        """Holds one batch behind all earlier ones; without room, all of them are answered."""
        self._gatherer.append(self._route, acks, batch, nbytes, sink, index, deadline_ms)
        self._ledger.nbytes += nbytes
        if self._ledger.nbytes > self._ledger.bytes_max:
            self.give_up("too much waits for new leaders")

    # ---- events ----

    def sent(self, group: AppendGroup) -> None:
        """A group left for the present leader."""
        self._present.add(group)

    def completed(self, group: AppendGroup, failures: Mapping[int, Failure] | None) -> bool:
        """A group that had left has its result; True if it is held instead of answered."""
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

    def recalled(self, group: AppendGroup) -> None:
        """A group was taken back from a leader that will not answer any more."""
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
        """A newer image names another leader, epoch or way to the leader. Epochs never go back."""
        assert epoch >= self.epoch
        self._earlier |= self._present
        self._present.clear()
        self.epoch = epoch
        self.led = led
        self._trusted = False

    def take(self, *, retry: bool = False) -> list[AppendGroup]:
        """What may leave now for the present leader, in order; it counts as sent.

        To be asked after `append`, `moved` and `completed`, and with `retry` now and then.
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
        """Answers what has waited too long, and what would overtake it.

        Also forgets groups that have left and lost all their batches in that way.
        """
        self._present = {group for group in self._present if group.batches}
        self._earlier = {group for group in self._earlier if group.batches}
        self._end_passing()
        expiry = AppendExpiry(now_ms, "no leader was found in time")
        before = self._nbytes()
        for group in self._groups:
            expiry.take_unsent(group)
        self._groups = [group for group in self._groups if group.batches]
        self._gatherer.prune(expiry.take_unsent)
        self._ledger.nbytes -= before - self._nbytes()
        self._forget_refusal()
        expiry.tell()

    def give_up(self, reason: str) -> None:
        """Answers all that is held, in order; clients send it again in that order."""
        for group in self._take_all():
            tell_all(group, unknown(reason) if group.attempted else not_sent(reason))

    def fail(self, failure: Failure) -> None:
        """Answers all that is held with this failure."""
        for group in self._take_all():
            tell_all(group, failure)

    # ---- inside ----

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
        # One refusal says nothing of the leader before.
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
    """Why the group may be sent again, or None if it may not."""
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
    """True if it was not the leader who said so, or one that leads no longer."""
    return any(
        f.error_code == ErrorCode.REQUEST_TIMED_OUT and f.outcome == OUTCOME_UNKNOWN
        for f in failures.values()
    )


def tell_all(group: AppendGroup, failure: Failure) -> None:
    """The same failure to every sink, now, whatever the group's owner says."""
    n = len(group.batches)
    tell_sinks(group, [-1] * n, dict.fromkeys(range(n), failure))


def _never(_: object) -> None:
    raise AssertionError("held batches leave only by `take`")
