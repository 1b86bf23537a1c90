"""Which batches of a log a pass may drop because of how their transactions ended, pure.

Follows Kafka's `CleanedTransactionMetadata`. One object goes through the log's batches in order, over
all segments of a pass.
"""

from collections.abc import Iterable

from highwater.kafka.records.batch import (
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    RecordBatchView,
    is_control,
)
from highwater.kafka.records.control import read_end_marker
from highwater.partition.core.transactions import AbortedTransaction


class CleanedTransactions:
    """See the module. Its memory is that of the log's aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedTransaction], first: int = 0) -> None:
        """`aborted` are all of the log's transaction indexes; their markers may come later. The
        batches that are read begin at the offset `first`, or with the one that holds it.
        """
        left = (one for one in aborted if one.last_offset >= first)
        self._coming = sorted(left, key=lambda one: one.first_offset, reverse=True)
        self._aborted: dict[int, _Open] = {}
        self._others: set[int] = set()
        """Producers with batches of a transaction that was committed."""
        self.kept: list[AbortedTransaction] = []
        """The entries of markers that stay since the caller has emptied this list: those of which the
        pass has met batches, in the order of their markers."""

    def read(self, batch: RecordBatchView) -> bool:
        """Take the log's next batch. True if its records may go: it belongs to an aborted
        transaction, or is a marker behind the last batch of a transaction that is left.

        Raises RecordsError if a marker cannot be read.
        """
        coming, last = self._coming, batch.last_offset
        while coming and coming[-1].first_offset <= last:
            entry = coming.pop()
            self._aborted.setdefault(entry.producer_id, _Open(entry))
        header = batch.header()
        if is_control(header.attributes):
            return self._marker(batch)
        if not header.attributes & TRANSACTIONAL_BIT:
            return False
        open_one = self._aborted.get(header.producer_id)
        if open_one is None:
            self._others.add(header.producer_id)
            return False
        open_one.met = True
        return True

    def _marker(self, batch: RecordBatchView) -> bool:
        header = batch.header()
        payload = memoryview(batch.buf)[batch.start + HEADER_SIZE : batch.end]
        marker = read_end_marker(payload, header.record_count)
        if marker is None:
            return not header.record_count
        if marker.committed:
            if header.producer_id not in self._others:
                return True
            self._others.remove(header.producer_id)
            return False
        ended = self._aborted.pop(header.producer_id, None)
        if ended is None or not ended.met:
            return True
        self.kept.append(ended.entry)
        return False


class _Open:
    """An aborted transaction whose marker was not met yet."""

    __slots__ = ("entry", "met")

    def __init__(self, entry: AbortedTransaction) -> None:
        self.entry = entry
        self.met = False
