"""A log's transaction indexes: written when a transaction is aborted, searched for fetches.

What is open is in the producers' states (`core.transactions`). Kafka has this in
`LogSegment.updateTxnIndex` and `LocalLog.collectAbortedTransactions`.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from highwater.partition.core.transactions import AbortedTransaction, Transactions
from highwater.partition.storage.errors import CorruptIndexError, LogDirFailure
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.log.log_writer import LogWriter
from highwater.partition.storage.log.place import LogPlace
from highwater.partition.storage.recovery.transaction_recovery import rebuild_transaction_indexes
from highwater.partition.storage.segment.segment import Segment

_T = TypeVar("_T")


class LogTransactions:
    """The aborted transactions of one log. Lives as long as the log."""

    __slots__ = ("_place", "_segments", "_writer")

    def __init__(
        self,
        place: LogPlace,
        segments: LogSegments,
        writer: LogWriter,
        *,
        transactions: Transactions,
    ) -> None:
        """All belong to the log. `transactions` are those of its producers, which are told if an index
        has entries: the producers of aborted transactions may have expired, and no snapshot tells of
        them then.
        """
        self._place = place
        self._segments = segments
        self._writer = writer
        if any(segment.transactions.file.count for segment in segments.all):
            transactions.aborted_are_indexed()

    def before_abort(self, aborted: AbortedTransaction, info: LogAppendInfo) -> None:
        """Write the entry of a transaction whose marker is the first batch of `info`, which is to
        be appended next.

        A roll that is due happens now, so that the entry is in the marker's segment. Raises
        LogDirFailure.
        """
        self._writer.roll_if_due(info)
        active = self._segments.active
        try:
            active.transactions.append(aborted)
        except OSError as error:
            raise LogDirFailure(active.transactions.file.path, error) from error

    def aborted(self, first: int, end: int) -> list[tuple[int, int]]:
        """The aborted transactions that overlap the offsets [first, end), of which `end` is at most
        the last stable offset. Each as a consumer gets it: (producer id, first offset).

        Their markers may be in later segments, too. An index that turns out to be damaged is
        rebuilt. Raises LogDirFailure, CorruptLogError.
        """
        found: list[tuple[int, int]] = []
        segments = self._segments
        active = segments.active
        following = (active,) if first >= active.base_offset else segments.from_offset(first)
        for segment in following:
            index = segment.transactions
            if not index.file.count:
                continue
            try:
                last = index.collect(first, end, found)
            except (CorruptIndexError, OSError):
                last = self._read(segment, partial(index.collect, first, end, found))
            if last:
                break
        return found

    def packed(self) -> bytes:
        """All entries of the log, as its indexes have them. Raises as `aborted` does."""
        return b"".join(
            self._read(segment, segment.transactions.packed) for segment in self._segments.all
        )

    def _read(self, segment: Segment, read: Callable[[], _T]) -> _T:
        try:
            try:
                return read()
            except CorruptIndexError:
                self._rebuild(segment)
            return read()
        except OSError as error:
            raise LogDirFailure(segment.transactions.file.path, error) from error

    def _rebuild(self, segment: Segment) -> None:
        segments = self._segments.all
        number = segments.index(segment)
        place = self._place
        rebuild_transaction_indexes(
            place.filesystem, place.directory, segments, number, stop=number + 1
        )
