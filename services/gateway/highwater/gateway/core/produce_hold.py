"""Produce of one partition while its leader moves: what is held, what is answered, what may leave.

Pure state (decision 14): events in, verdicts out. Batches of one partition stay in their order,
which includes the order of each connection: while anything is held, later batches wait behind it,
and nothing leaves for a new leader while the old one may still answer.

A refusal is held only if nothing sent later can get into the log before it:
- the node knows a newer epoch than the group's, so it refuses all that follows in that epoch; or
- nothing else is under way (the node may be behind the gateway, and accept what comes next).
Any other refusal goes to the client, and so do those after it until nothing is under way.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from highwater.hop.append import (
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    AppendGatherer,
    AppendGroup,
    AppendRoute,
    AppendSink,
    Failure,
)
from highwater.hop.append_expiry import AppendExpiry, all_idempotent, not_sent, unknown
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import LeaderEpoch


class Refusal(Enum):
    """Why a group may be sent again."""

    MOVED = "the node knows a newer epoch; a newer image will come"
    BEHIND = "the node does not lead yet, or not any more, and knows no better"
    UNKNOWN = "the link is gone; every batch is idempotent"


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
        "_refused_epoch",
        "_retry",
        "_route",
        "_under_way",
        "epoch",
        "led",
    )

    def __init__(self, route: AppendRoute, ledger: HoldLedger, *, led: bool) -> None:
        self.epoch: int = route.leader_epoch
        self.led = led
        self._ledger = ledger
        self._under_way = 0
        """Groups of the present epoch that are not completed."""
        self._earlier = 0
        """Groups of earlier epochs that are not completed."""
        self._groups: list[AppendGroup] = []
        """Refused ones; later batches are in the gatherer."""
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
        self._gatherer = AppendGatherer(_never, _never)
        self._gatherer.hold()

    # ---- what the path to the link asks ----

    @property
    def straight(self) -> bool:
        """True if batches go to the leader at once; else they are to be given to `append`."""
        return self.led and not self._earlier and not self.holding

    @property
    def holding(self) -> bool:
        """True if anything is held."""
        return bool(self._groups) or self._gatherer.queued_bytes > 0

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

    def sent(self) -> None:
        """A group left for the leader, in the present epoch."""
        self._under_way += 1

    def completed(self, group: AppendGroup, failures: Mapping[int, Failure] | None) -> bool:
        """A group that had left has its result; True if it is held instead of answered."""
        if group.leader_epoch == self.epoch:
            self._under_way -= 1
        else:
            self._earlier -= 1
        left = self._under_way + self._earlier
        refusal = refusal_of(group, failures) if failures else None
        hold = refusal is not None and not self._passing
        if hold and not self._groups and refusal is Refusal.BEHIND:
            hold = left == 0
        if hold and refusal is not None:
            self._hold(group, refusal)
        elif refusal is not None:
            self._passing = True
        if left == 0:
            self._passing = False
        return hold

    def moved(self, epoch: int, *, led: bool) -> None:
        """A newer image. Epochs never go back."""
        if epoch != self.epoch:
            assert epoch > self.epoch
            self._earlier += self._under_way
            self._under_way = 0
            self.epoch = epoch
        self.led = led

    def take(self, *, retry: bool = False) -> list[AppendGroup]:
        """What may leave now for the present leader, in order; it counts as sent.

        To be asked after `moved` and `completed`, and with `retry` every now and then.
        """
        if not self.led or self._earlier or self._under_way or not self.holding:
            return []
        if self._refused_epoch >= self.epoch and not (retry and self._retry):
            return []
        groups = self._take_all()
        for group in groups:
            group.leader_epoch = LeaderEpoch(self.epoch)
        self._under_way += len(groups)
        return groups

    def expire(self, now_ms: int) -> None:
        """Answers what has waited too long, and what would overtake it."""
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
            group.fail(unknown(reason) if group.attempted else not_sent(reason))

    # ---- inside ----

    def _hold(self, group: AppendGroup, refusal: Refusal) -> None:
        group.doubtful = group.doubtful or refusal is Refusal.UNKNOWN
        # One refusal says nothing of the leader before.
        group.attempted = group.doubtful
        if not self._groups:
            self._retry = True
        self._retry = self._retry and refusal is not Refusal.MOVED
        self._groups.append(group)
        self._refused_epoch = max(self._refused_epoch, group.leader_epoch)
        self._ledger.nbytes += group.nbytes
        if self._ledger.nbytes > self._ledger.bytes_max:
            self.give_up("too much waits for new leaders")

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
    """Why the whole group may be sent again, or None if it may not."""
    if len(failures) < len(group.batches):
        return None
    found = list(failures.values())
    if all(
        f.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and f.outcome == OUTCOME_NOT_APPENDED
        for f in found
    ):
        known = max(f.leader_epoch for f in found)
        return Refusal.MOVED if known > group.leader_epoch else Refusal.BEHIND
    lost = all(
        f.error_code == ErrorCode.REQUEST_TIMED_OUT and f.outcome == OUTCOME_UNKNOWN for f in found
    )
    return Refusal.UNKNOWN if lost and all_idempotent(group) else None


def _never(_: object) -> None:
    raise AssertionError("held batches leave only by `take`")
