"""Transactions in the log of one partition: which are open, and up to where all have ended.

Follows the part of Kafka's `ProducerStateManager` that is about transactions (KIP-98). A transaction
begins with its producer's first transactional batch, and a marker ends it. It is unstable until its
marker is committed, since another leader may not have that. Nobody reads past the first record of an
unstable transaction at read_committed: that is the last stable offset (LSO).
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from highwater.partition.core.producer_entry import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_TRANSACTION,
    packed_transaction,
    unpacked_transaction,
)

NO_PRODUCER: Final = -1
_NEVER: Final = 1 << 63
"""Larger than every offset."""

ENDED_KEPT_MIN: Final = 1024
"""Transactions that have ended and are still in the heap of first offsets, before it is made anew: while
one transaction is open for long, those that begin behind it do not leave the heap by themselves."""


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index: offsets are the log's, and inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    last_stable_offset: int
    """Where the log is stable when this marker is committed: no transaction that overlaps a range
    before it comes behind this entry."""


class Transactions:
    """Of one log. It lives as long as `ProducerStates`, which tell it of batches and markers in the
    log's order, and has the same owner.

    `open`, `ended` and `told_up_to` are read on the hot path of Fetch: if the first two are empty, and
    the high watermark has reached the third, the LSO is the high watermark.
    """

    __slots__ = (
        "_coordinator_epochs",
        "_firsts",
        "_last_marker_producer",
        "committed",
        "ended",
        "open",
        "seen",
        "told_up_to",
    )

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """The first offset of each producer's open transaction."""
        self.ended: deque[tuple[int, int]] = deque()
        """(marker's offset, first offset) of transactions whose marker may not be committed; both
        ascend. One that began after a transaction which ended behind it is left out: it cannot be
        the first unstable one."""
        self.committed = 0
        """The newest high watermark that was told: what ended before it is forgotten. Replicas that
        nobody reads tell it, too."""
        self.seen = False
        """Whether there ever was a transaction or a marker, as far as is known: by batches, by a snapshot, or by
        the log's indexes of aborted ones, whose producers may have expired. Never False again: without
        it nobody looks for aborted transactions, and their records would be delivered."""
        self.told_up_to = 0
        """A snapshot does not tell which transactions ended just before its offset, which this is;
        0 if there never was one. Until the high watermark is there, the LSO is not known."""
        self._firsts: list[tuple[int, int]] = []
        """A heap of (first offset, producer) of open transactions, and of some that have ended:
        at most as many as are open, and `ENDED_KEPT_MIN`."""
        self._coordinator_epochs: dict[int, int] = {}
        self._last_marker_producer = NO_PRODUCER
        """See `last_marker_producer`."""

    def clear(self) -> None:
        """Forgets all, before the state is rebuilt."""
        self._last_marker_producer = NO_PRODUCER
        self.open.clear()
        self.ended.clear()
        self._firsts.clear()
        self._coordinator_epochs.clear()
        self.committed = self.told_up_to = 0

    # ---- in the log's order ----

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch at this offset is the first one of a producer without an open
        transaction.
        """
        self.seen = True
        self.open[producer_id] = first_offset
        firsts = self._firsts
        if len(firsts) < 2 * len(self.open) + ENDED_KEPT_MIN:
            heappush(firsts, (first_offset, producer_id))
        else:
            self._firsts = [(first, of) for of, first in self.open.items()]
            heapify(self._firsts)

    def end(
        self,
        producer_id: int,
        marker_offset: int,
        coordinator_epoch: int,
        *,
        committed: bool = False,
    ) -> AbortedTransaction | None:
        """A marker ends what the producer has open. The transaction's entry for an index of aborted
        ones, unless it is known to be `committed`; None if nothing was open: then the marker only tells
        the coordinator's epoch.
        """
        self.seen = True
        self._coordinator_epochs[producer_id] = coordinator_epoch
        first = self.open.pop(producer_id, NO_OFFSET)
        if first == NO_OFFSET:
            return None
        ended = self.ended
        while ended and ended[0][0] < self.committed:
            ended.popleft()
        while ended and ended[-1][1] >= first:
            ended.pop()
        ended.append((marker_offset, first))
        self._last_marker_producer = producer_id
        if committed:
            return None
        return AbortedTransaction(
            producer_id, first, marker_offset, min(self._first_open(), marker_offset + 1)
        )

    def commit_to(self, high_watermark: int) -> None:
        """Everything before the high watermark is committed, which nobody may have asked for."""
        self.committed = high_watermark

    def forget(self, producer_id: int) -> None:
        """The producer, which has no open transaction, is forgotten."""
        self._coordinator_epochs.pop(producer_id, None)

    # ---- questions ----

    @property
    def last_marker_producer(self) -> int:
        """The producer that may not be forgotten, as long as a marker may not be committed: a snapshot
        that has it lets a start know that it cannot tell the LSO yet (`told_up_to`). `NO_PRODUCER` if
        everything that has ended is committed.

        It is that of the newest marker, so one is enough, however many have ended.
        """
        ended = self.ended
        if self.committed < self.told_up_to or (ended and ended[-1][0] >= self.committed):
            return self._last_marker_producer
        return NO_PRODUCER

    def coordinator_epoch(self, producer_id: int) -> int:
        """Of the producer's last marker, -1 if none is known."""
        return self._coordinator_epochs.get(producer_id, NO_COORDINATOR_EPOCH)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The high watermark, or the first record before it of an unstable transaction.

        It may lie before the log start offset. It goes back only where the log or the high
        watermark does.
        """
        ended = self.ended
        self.committed = high_watermark
        while ended and ended[0][0] < high_watermark:
            ended.popleft()
        return min(high_watermark, ended[0][1] if ended else _NEVER, self._first_open())

    def is_known(self, high_watermark: int) -> bool:
        """False while the LSO cannot be told, shortly after a start or a truncation."""
        return high_watermark >= self.told_up_to

    def _first_open(self) -> int:
        firsts, of = self._firsts, self.open
        while firsts:
            first, producer_id = firsts[0]
            if of.get(producer_id) == first:
                return first
            heappop(firsts)
        return _NEVER

    # ---- snapshots ----

    def aborted_are_indexed(self) -> None:
        """The log has an index with entries, whatever a snapshot tells of their producers."""
        self.seen = True

    def producers(self) -> set[int]:
        """All of which `packed` has something to tell."""
        return self.open.keys() | self._coordinator_epochs.keys()

    def packed(self, producer_id: int) -> bytes:
        """The last two fields of the producer's entry."""
        epoch = self._coordinator_epochs.get(producer_id, NO_COORDINATOR_EPOCH)
        return packed_transaction(epoch, self.open.get(producer_id, NO_OFFSET))

    def load(self, producer_id: int, transaction: bytes) -> None:
        """Takes the last two fields of an entry."""
        if transaction == NO_TRANSACTION:
            return
        self.seen = True
        epoch, first_offset = unpacked_transaction(transaction)
        if epoch != NO_COORDINATOR_EPOCH:
            self._coordinator_epochs[producer_id] = epoch
            self._last_marker_producer = producer_id
            self.told_up_to = max(self.told_up_to, self.committed + 1)  # Until `loaded` says more.
        if first_offset != NO_OFFSET:
            self.begin(producer_id, first_offset)

    def loaded(self, offset: int) -> None:
        """A snapshot of this offset was loaded."""
        if self.seen:
            self.told_up_to = offset
