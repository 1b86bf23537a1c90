"""Idempotent producers that have lost a batch to a refusal, until they send it again.

A client sends again what was refused to be repeated. But what it sent after that may be on its way: in a
socket, at a gateway, in a queue. A log that does not know the producer would take the first of these for
the producer's first batch, and the refused one would be out of sequence for ever; one that knows it would
refuse them as out of sequence, for which librdkafka begins a new epoch and sends again whatever it is in
doubt about. So what would come without the lost batch is refused like that, until it comes.

Kafka has no such memory: it appends whatever it is sent, and lets the client wait afterwards.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

from highwater.hop.append import AppendGroup
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import BATCH_HEADER, HEADER_SIZE
from highwater.model.ids import TopicId
from highwater.partition.core.producers import ACCEPT, OUT_OF_ORDER_SEQUENCE
from highwater.partition.core.sequences import is_before, last_sequence

REMEMBERED_MS: Final = 30_000
"""A usual request's time limit: longer than anything of the same producer is under way. After that the log's
own rules hold, so a client that goes on without the batch, in the same epoch, is not kept out."""
PRODUCERS_MAX: Final = 10_000
"""Some 3 MB. Of more, those that were refused first are forgotten: then the log's own rules hold."""

_unpack_header = BATCH_HEADER.unpack_from
_Key: TypeAlias = tuple[TopicId, int, int]
"""Topic, partition and producer id."""


class KnownProducers(Protocol):
    """What a log knows of its producers, see `core.producers`."""

    def __contains__(self, producer_id: int) -> bool: ...

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> int:
        """`ACCEPT` if the batch is next, its offset if it is in the log, another code if it is neither."""
        ...


class RefusedProducers:
    """See the module. Of one instance at one node, from a refusal until nothing is remembered."""

    __slots__ = ("_lost", "_now_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lost: dict[_Key, tuple[int, int, int]] = {}
        """The epoch and the sequence of the first batch that was lost, and until when (ms) that counts;
        those that were refused first come first."""

    def __len__(self) -> int:
        return len(self._lost)

    def note(self, group: AppendGroup, known: KnownProducers | None) -> None:
        """The group is about to be refused. What is in the log already is lost to nobody."""
        until_ms = self._now_ms() + REMEMBERED_MS
        for _, producer_id, epoch, sequence, last in _idempotent(group):
            if known is not None and known.check(producer_id, epoch, sequence, last) >= 0:
                continue
            key = (group.topic_id, group.partition, producer_id)
            lost = self._lost.get(key)
            if lost is None or lost[0] < epoch:
                self._lost.pop(key, None)
                self._lost[key] = epoch, sequence, until_ms
                if len(self._lost) > PRODUCERS_MAX:
                    del self._lost[next(iter(self._lost))]
            elif lost[0] == epoch and is_before(sequence, lost[1]):
                self._lost[key] = epoch, sequence, lost[2]

    def places(self, group: AppendGroup, known: KnownProducers | None) -> list[int]:
        """Which of the group's batches would come without one that was lost. Call it right before the
        append: who sends that one is forgotten here.
        """
        found: list[int] = []
        now_ms = self._now_ms()
        for place, producer_id, epoch, sequence, last in _idempotent(group):
            key = (group.topic_id, group.partition, producer_id)
            lost = self._lost.get(key)
            if lost is None or epoch < lost[0]:
                continue
            if epoch == lost[0] and now_ms < lost[2] and sequence != lost[1]:
                if is_before(sequence, lost[1]):
                    continue
                verdict = OUT_OF_ORDER_SEQUENCE
                if known is not None and producer_id in known:
                    verdict = known.check(producer_id, epoch, sequence, last)
                if verdict != ACCEPT:
                    if verdict < 0:
                        found.append(place)
                    continue
            del self._lost[key]
        return found

    def forget(self) -> None:
        """Forgets those whose time is over."""
        now_ms = self._now_ms()
        while self._lost:
            key, (_, _, until_ms) = next(iter(self._lost.items()))
            if now_ms < until_ms:
                break
            del self._lost[key]


def _idempotent(group: AppendGroup) -> Iterator[tuple[int, int, int, int, int]]:
    """Place, producer id, epoch, first and last sequence of each batch that has them."""
    for place, batch in enumerate(group.batches):
        producer_id, epoch, sequence, last = _read(batch)
        if producer_id >= 0 and sequence >= 0:
            yield place, producer_id, epoch, sequence, last


def _read(batch: Buffer) -> tuple[int, int, int, int]:
    if len(batch) < HEADER_SIZE:
        return -1, -1, -1, -1
    *_, last_delta, _, _, producer_id, epoch, sequence, _ = _unpack_header(batch, 0)
    return producer_id, epoch, sequence, last_sequence(sequence, last_delta)
