"""Ending the wait for batches whose deadline has passed, without disturbing the others' order.

A group on the wire stays as it is, since its answer may still come and belongs to it alone: only
its sinks are told, once. A group that is not on the wire loses the batches. Of an idempotent
producer all later batches in the same queue go with the first: if they went on without it, a node
that does not know the producer would take a later sequence for the first one.
"""

from typing import Any, Final

from highwater.hop.append import (
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    AppendGroup,
    AppendSink,
    Failure,
    tell,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import PRODUCER_EPOCH_AT, PRODUCER_ID_AT
from highwater.model.ids import TopicId

NEVER_MS: Final = 1 << 62
"""The deadline of a group for which nobody waits any more."""


class _Answered:
    """In the place of a sink that has been told; late answers end here."""

    def append_done(self, *_: object) -> None:
        """Nobody is interested."""

    def append_broken(self, _error: Exception) -> None:
        """Cannot happen."""


ANSWERED: Final[AppendSink] = _Answered()


class AppendExpiry:
    """One look at everything that waits for a node. `tell` comes last: sinks may do anything.

    Unsent groups must be shown in the order in which they would be sent.
    """

    __slots__ = ("_doomed", "_now_ms", "_reason", "_told")

    def __init__(self, now_ms: int, reason: str) -> None:
        """`now_ms` on the clock of the deadlines; `reason` is for people."""
        self._now_ms = now_ms
        self._reason = reason
        self._doomed: set[tuple[TopicId, int, bytes]] = set()
        """(topic, partition, producer id) of producers that lost a batch."""
        self._told: list[tuple[AppendSink, int, AppendGroup, Failure]] = []

    def answer_sent(self, group: AppendGroup) -> None:
        """A group on the wire: whoever waited long enough hears that the outcome is unknown."""
        if group.deadline_ms > self._now_ms:
            return
        failure = unknown(self._reason)
        later: dict[int, int] = {}
        for place, sink in enumerate(group.sinks):
            if sink is ANSWERED:
                continue
            deadline_ms = _deadline_of(group, place)
            if deadline_ms <= self._now_ms:
                self._told.append((sink, group.indexes[place], group, failure))
                group.sinks[place] = ANSWERED
            else:
                later[place] = deadline_ms
        group.later_deadlines = later
        group.deadline_ms = min(later.values(), default=NEVER_MS)
        if not later and not any_idempotent(group):
            # It will not be sent again, so its bytes are of no use.
            group.batches = [b""] * len(group.batches)

    def take_unsent(self, group: AppendGroup) -> int:
        """A group that is not on the wire: takes expired batches out; gives their bytes."""
        if group.deadline_ms > self._now_ms and not self._doomed:
            return 0
        kept: list[int] = []
        failure = unknown(self._reason) if group.attempted else not_sent(self._reason)
        for place, batch in enumerate(group.batches):
            producer = (group.topic_id, group.partition, producer_of(batch))
            if _deadline_of(group, place) > self._now_ms and producer not in self._doomed:
                kept.append(place)
                continue
            if is_idempotent(batch):
                self._doomed.add(producer)
            self._told.append((group.sinks[place], group.indexes[place], group, failure))
        return _keep(group, kept)

    def tell(self) -> None:
        """Tells every sink that was noted."""
        told, self._told = self._told, []
        for sink, index, group, failure in told:
            tell(sink, index, -1, group, failure)


def unknown(reason: str) -> Failure:
    """The failure for batches of which nobody knows whether they are in the log."""
    return Failure(ErrorCode.REQUEST_TIMED_OUT, reason, outcome=OUTCOME_UNKNOWN)


def not_sent(reason: str) -> Failure:
    """The failure for batches that are certainly in no log: the client sends them again."""
    return Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason, outcome=OUTCOME_NOT_APPENDED)


def any_idempotent(group: AppendGroup) -> bool:
    """True if some batch carries a producer id."""
    return any(is_idempotent(batch) for batch in group.batches)


def answer_others(group: AppendGroup, failure: Failure) -> None:
    """Takes the batches out that are not idempotent, and then tells their sinks.

    The rest may be sent again, and has to be: if the client did it, the next batches of its
    producer, which are under way, would come first.
    """
    told: list[tuple[AppendSink, int]] = []
    kept: list[int] = []
    for place, batch in enumerate(group.batches):
        if is_idempotent(batch):
            kept.append(place)
        else:
            told.append((group.sinks[place], group.indexes[place]))
    _keep(group, kept)
    for sink, index in told:
        tell(sink, index, -1, group, failure)


def drop_answered(group: AppendGroup) -> None:
    """Takes out batches that must not be sent again: their clients may have sent them anew.

    Idempotent batches stay, as a log knows them, and others of their producer may be behind.
    """
    if ANSWERED in group.sinks:
        kept = [
            place
            for place, (sink, batch) in enumerate(zip(group.sinks, group.batches, strict=True))
            if sink is not ANSWERED or is_idempotent(batch)
        ]
        _keep(group, kept)


def is_idempotent(batch: Any) -> bool:
    """True if the batch names a producer; a cut batch counts as not idempotent."""
    # The sign bit of the producer id: -1 means none.
    return len(batch) > PRODUCER_ID_AT and batch[PRODUCER_ID_AT] < 0x80


def producer_of(batch: Any) -> bytes:
    """The producer id as it stands in the batch."""
    return bytes(batch[PRODUCER_ID_AT:PRODUCER_EPOCH_AT])


def _deadline_of(group: AppendGroup, place: int) -> int:
    later = group.later_deadlines
    return group.deadline_ms if later is None else later.get(place, group.deadline_ms)


def _keep(group: AppendGroup, places: list[int]) -> int:
    """Leaves only these batches; gives the bytes of the others."""
    if len(places) == len(group.batches):
        return 0
    deadlines = [_deadline_of(group, place) for place in places]
    before = group.nbytes
    group.batches = [group.batches[place] for place in places]
    group.sinks = [group.sinks[place] for place in places]
    group.indexes = [group.indexes[place] for place in places]
    group.nbytes = sum(map(len, group.batches))
    group.later_deadlines = dict(enumerate(deadlines))
    group.deadline_ms = min(deadlines, default=NEVER_MS)
    return before - group.nbytes
