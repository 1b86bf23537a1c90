"""What a simulated log knows of transactions, in memory and in the files beside it.

As `storage.log.log_producers` and `storage.log.log_transactions` of the partition service, with their
`replay_batch`: producers are rebuilt from a snapshot and the batches behind it, and the index of
aborted transactions has those whose marker is before the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.log.append_info import LogAppendInfo
from highwater.partition.storage.recovery.producer_recovery import replay_batch
from tests.sim.log_producers import Entry, LogProducers
from tests.sim.txn.batches import Batches, header_of, marker_of

SNAPSHOTS_MAX = 3


class TransactionalProducers(LogProducers):
    """Of one log, as long as it lives."""

    def __init__(
        self,
        batches: Batches,
        new_states: Callable[[], ProducerStates],
        now_ms: Callable[[], int],
        expiration_ms: int,
    ) -> None:
        self.states = new_states()
        self.judged_end = 0
        self._new_states = new_states
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._aborted: list[AbortedTransaction] = []
        """The transaction index."""
        self._batches = batches
        self._snapshots: list[tuple[int, bytes]] = []
        """(offset, entries), in the order of their offsets."""

    def opened(self, base: int, entries: list[Entry]) -> None:
        """Also as `LogTransactions` begins: the index tells that there were transactions."""
        self.states = self._new_states()
        self.rebuild(base, entries)
        if self._aborted:
            self.states.transactions.aborted_are_indexed()

    def note(self, offset: int, entry: Entry) -> None:
        """The entry is in the log."""
        if offset < self.judged_end:
            return
        data = self._batches[entry[1]]
        fields = list(header_of(data))
        fields[0] = offset
        aborted = replay_batch(self.states, fields, marker_of(data))
        if aborted is not None:
            self._aborted.append(aborted)

    def rebuild(self, base: int, entries: list[Entry]) -> None:
        """As `load_newest_snapshot` and `replay`."""
        end = base + len(entries)
        self._snapshots = [one for one in self._snapshots if base <= one[0] <= end]
        start = base
        self.states.clear()
        if self._snapshots:
            start, packed = self._snapshots[-1]
            self.states.load(packed, now_ms=self._now_ms(), expiration_ms=self._expiration_ms)
            self.states.transactions.loaded(start)
        self._aborted = [one for one in self._aborted if one.last_offset < start]
        self.judged_end = 0
        for offset in range(start, end):
            self.note(offset, entries[offset - base])

    def expire(self) -> None:
        """As `LogProducers.expire` of the partition service."""
        for _ in self.states.expire(self._now_ms(), self._expiration_ms):
            pass

    def take_snapshot(self, end: int) -> None:
        """The states belong to the log up to `end`."""
        if not self._snapshots or self._snapshots[-1][0] < end:
            self._snapshots.append((end, b"".join(self.states.packed())))
            del self._snapshots[:-SNAPSHOTS_MAX]

    def files_are_lost(self) -> None:
        """After a loss of the log's tail, recovery reads the log."""
        self._snapshots = []
        self._aborted = []

    def entries(self, info: LogAppendInfo) -> list[Entry]:
        """Batches by their numbers; whose they are is in their bytes."""
        data = b"".join(info.buffers)
        made: list[Entry] = []
        begin = 0
        for size in info.sizes:
            made.append((info.leader_epoch, self._batches.add(data[begin : begin + size]), -1, -1))
            begin += size
        return made

    def index(self, aborted: AbortedTransaction) -> None:
        self._aborted.append(aborted)

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """As `LogTransactions.aborted`."""
        return [one for one in self._aborted if one.first_offset < end and one.last_offset >= first]
