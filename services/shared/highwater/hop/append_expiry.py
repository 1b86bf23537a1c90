"""Fails batches whose deadline has passed, and keeps the order of the others.

A group on the wire keeps its place, since its answer may still come; its sinks are answered once.
A group that is not on the wire loses its expired batches. All later batches of an idempotent
producer in the same queue expire with the first: if they were sent without it, a node that does not
know the producer would accept a later sequence as the first one.
"""

from collections.abc import Iterable
from typing import Final

from highwater.hop.append import (
    NO_BATCH,
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    AppendGroup,
    AppendSink,
    Failure,
    tell,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import PRODUCER_EPOCH_AT, PRODUCER_ID_AT
from highwater.model.ids import TopicId

NEVER_MS: Final = 1 << 62
"""The deadline of a group whose sinks have all been answered."""


class _Answered:
    """Replaces a sink that was answered, and drops late answers."""

    def append_done(self, *_: object) -> None:
        """Drops the answer."""

    def append_broken(self, _error: Exception) -> None:
        """Never called."""


ANSWERED: Final[AppendSink] = _Answered()


class AppendExpiry:
    """One pass over all groups that wait for a node. Call `tell` last: sinks may change the queues.

    Unsent groups must be passed in the order in which they would be sent.
    """

    __slots__ = ("_doomed", "_now_ms", "_reason", "_told")

    def __init__(self, now_ms: int, reason: str) -> None:
        """`now_ms` is on the clock of the deadlines; `reason` goes into the error message."""
        self._now_ms = now_ms
        self._reason = reason
        self._doomed: set[tuple[TopicId, int, bytes]] = set()
        """(topic, partition, producer id) of producers that lost a batch."""
        self._told: list[tuple[AppendSink, int, AppendGroup, Failure]] = []

    def answer_sent(self, group: AppendGroup) -> None:
        """Notes the expired sinks of a group on the wire; their outcome is unknown."""
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
            # It will not be sent again, so its bytes can be freed.
            group.batches = [NO_BATCH] * len(group.batches)

    def doom(self, group: AppendGroup, places: Iterable[int]) -> bool:
        """Lets all unsent batches of some batches' idempotent producers expire; True if there is one.

        For batches that were answered with an error: their producers send them again.
        """
        for place in places:
            batch = group.batches[place]
            if is_idempotent(batch):
                self._doomed.add((group.topic_id, group.partition, producer_of(batch)))
        return bool(self._doomed)

    def take_unsent(self, group: AppendGroup) -> int:
        """Takes expired batches out of a group that is not on the wire; returns their bytes."""
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
        """Fails all noted sinks."""
        told, self._told = self._told, []
        for sink, index, group, failure in told:
            tell(sink, index, -1, group, failure)


def unknown(reason: str) -> Failure:
    """The failure for batches that may or may not be in the log."""
    return Failure(ErrorCode.REQUEST_TIMED_OUT, reason, outcome=OUTCOME_UNKNOWN)


def not_sent(reason: str) -> Failure:
    """The failure for batches that are certainly in no log; the client sends them again."""
    return Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, reason, outcome=OUTCOME_NOT_APPENDED)


def any_idempotent(group: AppendGroup) -> bool:
    """True if some batch carries a producer id."""
    return any(is_idempotent(batch) for batch in group.batches)


def answer_others(group: AppendGroup, failure: Failure) -> None:
    """Takes out the batches that are not idempotent and fails their sinks.

    The other batches must be sent again from here: if their clients did it, the next batches of
    the same producers, which are already in flight, would come first.
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
    """Takes out answered batches, which must not be sent again: their clients may have done so.

    Idempotent batches stay: a log recognises duplicates, and later batches may follow them.
    """
    if ANSWERED in group.sinks:
        kept = [
            place
            for place, (sink, batch) in enumerate(zip(group.sinks, group.batches, strict=True))
            if sink is not ANSWERED or is_idempotent(batch)
        ]
        _keep(group, kept)


def is_idempotent(batch: Buffer) -> bool:
    """True if the batch names a producer; a cut batch counts as not idempotent."""
    # The sign bit of the producer id: -1 means none.
    return len(batch) > PRODUCER_ID_AT and batch[PRODUCER_ID_AT] < 0x80


def producer_of(batch: Buffer) -> bytes:
    """The producer id as encoded in the batch."""
    return bytes(batch[PRODUCER_ID_AT:PRODUCER_EPOCH_AT])


def _deadline_of(group: AppendGroup, place: int) -> int:
    later = group.later_deadlines
    return group.deadline_ms if later is None else later.get(place, group.deadline_ms)


def _keep(group: AppendGroup, places: list[int]) -> int:
    """Keeps only these batches; returns the bytes of the others."""
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
