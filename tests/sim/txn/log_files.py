"""What a simulated log knows of transactions, in memory and in the files beside it.

As `storage.log.log_producers` and `storage.log.log_transactions` of the partition service, with their
`replay_batch`: producers are rebuilt from a snapshot and the batches behind it, and the index of
aborted transactions has those whose marker is before the snapshot.
"""

from __future__ import annotations

from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.recovery.producer_recovery import replay_batch
from tests.sim.log_producers import Entry, LogProducers
from tests.sim.txn.batches import Batches, header_of, marker_of

SNAPSHOTS_MAX = 3
NEVER_MS = 1 << 40


class TransactionalProducers(LogProducers):
    """Of one log, as long as it lives."""

    def __init__(self, batches: Batches, states: ProducerStates) -> None:
        self.states = states
        self.aborted: list[AbortedTransaction] = []
        """The transaction index."""
        self.judged_end = 0
        """A leader notes a batch when it judges it, before the log has it."""
        self._batches = batches
        self._snapshots: list[tuple[int, bytes]] = []
        """(offset, entries), in the order of their offsets."""

    def note(self, offset: int, entry: Entry) -> None:
        """The entry is in the log."""
        if offset < self.judged_end:
            return
        data = self._batches[entry[1]]
        fields = list(header_of(data))
        fields[0] = offset
        aborted = replay_batch(self.states, fields, marker_of(data))
        if aborted is not None:
            self.aborted.append(aborted)

    def rebuild(self, base: int, entries: list[Entry]) -> None:
        """As `load_newest_snapshot` and `replay`."""
        end = base + len(entries)
        self._snapshots = [one for one in self._snapshots if base <= one[0] <= end]
        start = base
        self.states.clear()
        if self._snapshots:
            start, packed = self._snapshots[-1]
            self.states.load(packed, now_ms=0, expiration_ms=NEVER_MS)
            self.states.transactions.loaded(start)
        self.aborted = [one for one in self.aborted if one.last_offset < start]
        self.judged_end = 0
        for offset in range(start, end):
            self.note(offset, entries[offset - base])

    def take_snapshot(self, end: int) -> None:
        """The states belong to the log up to `end`."""
        if not self._snapshots or self._snapshots[-1][0] < end:
            self._snapshots.append((end, b"".join(self.states.packed())))
            del self._snapshots[:-SNAPSHOTS_MAX]

    def files_are_lost(self) -> None:
        """After a loss of the log's tail, recovery reads the log."""
        self._snapshots = []
        self.aborted = []

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """As `LogTransactions.aborted`."""
        return [one for one in self.aborted if one.first_offset < end and one.last_offset >= first]
