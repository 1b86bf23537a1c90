"""A simulated log on a simulated disk: what a process sees, and what a power cut leaves of it.

An entry is one batch of one record: (epoch, value, producer id, sequence). Offsets count entries.
A killed process leaves the page cache, so its successor finds everything. A power cut leaves what
was synced, and of the rest as much as the seed likes; a truncation that was not synced may even
come back.

A torn write is no fault of its own here, since the replica core cannot tell it from a lost one: it
sees a log after recovery, which ends the log before the first batch that is cut short or whose CRC
does not hold, and drops whatever follows that, also whole batches. So of a torn batch no record is
left, and of an entry here nothing. `tests/unit/partition/storage/recovery/test_recovery_torn_disk.py` shows
it with every byte of two batches cut or changed, and with a tear in an earlier segment. The leader
epoch is not under the CRC, but stands between length and magic, which are checked: no page that is
missing takes it alone. F22 of `tests/robustness/faults` does the same to real processes.
"""

from __future__ import annotations

import random

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.lineage import NOTHING, failed
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.replica_effects import BeginEpochBehind
from tests.sim.log_producers import Entry, LogProducers


class SimLog:
    """One node's disk. It outlives the node's processes."""

    __slots__ = (
        "base",
        "entries",
        "epochs",
        "flush_messages",
        "full",
        "hangs_until_ms",
        "high_watermark",
        "kept_start",
        "lineage",
        "noted",
        "opened_end",
        "recovery_point",
        "stalled",
        "start",
        "synced",
        "truncations",
        "writing",
    )

    def __init__(self, flush_messages: int = 0, noted: LogProducers | None = None) -> None:
        """`flush_messages` is the topic's flush.messages; 0 never asks for a flush."""
        self.base = 0
        """Offset of entries[0]."""
        self.start = 0
        self.kept_start = 0
        """The checkpoint of the log start: after a crash the log begins there or later."""
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochCache()
        self.noted = noted or LogProducers()
        self.high_watermark = 0
        """The checkpoint."""
        self.lineage = NOTHING
        self.full = False
        self.synced: tuple[int, int, tuple[Entry, ...]] = (0, 0, ())
        self.flush_messages = flush_messages
        self.recovery_point = 0
        """Everything before it is on disk for certain."""
        self.opened_end = 0
        """Where the log ended when it was opened: a replica counts all that it finds."""
        self.truncations = 0
        self.stalled = False
        """A thread writes, as the disk hangs or has hung not long ago."""
        self.hangs_until_ms = 0
        self.writing: list[Entry] = []
        """What the thread is writing at the end of the log."""

    @property
    def producers(self) -> ProducerStates:
        """What is in memory; another process reads it anew."""
        return self.noted.states

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def append(self, entry: Entry) -> None:
        offset = self.base + len(self.entries)
        self.entries.append(entry)
        if entry[0] > self.epochs.latest:
            self.epochs.assign(entry[0], offset)
        self.noted.note(offset, entry)

    def begin_writing(self, entries: list[Entry]) -> None:
        """The entries are not in the log yet, but their epoch is known."""
        assert not self.writing
        self.epochs.assign(entries[0][0], self.end)
        self.writing = entries

    def end_writing(self, rng: random.Random) -> None:
        """Nobody waits for the write any more: its beginning is in the log, or all of it."""
        entries, self.writing = self.writing, []
        if entries:
            # An epoch that began while they were being written is not in the checkpoint yet.
            self.epochs.truncate_from_end(self.end)
            for entry in entries[: rng.randint(0, len(entries))]:
                self.append(entry)

    def begin_epoch_behind(self, wanted: BeginEpochBehind) -> None:
        """The records of a late write are of another epoch than the cache has."""
        self.epochs.truncate_from_end(wanted.late_offset)
        self.epochs.assign(wanted.late_epoch, wanted.late_offset)
        if wanted.leader_epoch >= 0:
            self.epochs.assign(wanted.leader_epoch, wanted.start_offset)

    @property
    def flushed_end(self) -> int:
        """How much of the log may count, as flush.messages has it."""
        if not self.flush_messages:
            return self.end
        return min(self.end, max(self.opened_end, self.recovery_point + self.flush_messages - 1))

    def read(self, offset: int, end: int) -> list[Entry]:
        return self.entries[offset - self.base : max(end - self.base, 0)]

    def truncate(self, offset: int) -> None:
        """Cuts the log at the offset; epochs that begin there go even if no record does."""
        if offset < self.base:
            self.restart_at(offset)
            return
        cut = offset < self.end
        if cut:
            del self.entries[offset - self.base :]
            self.start = min(self.start, offset)
            self.kept_start = min(self.kept_start, offset)
            self._cut_at(offset)
        self.epochs.truncate_from_end(offset)
        if cut:
            self._rebuild_producers()

    def restart_at(self, offset: int) -> None:
        self.base = self.start = offset
        self.kept_start = min(self.kept_start, offset)
        self.entries = []
        self.epochs.clear()
        self.recovery_point = self.opened_end = offset
        self.truncations += 1
        self.noted.files_are_lost()
        self._rebuild_producers()

    def _cut_at(self, end: int) -> None:
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, end)
        self.opened_end = min(self.opened_end, end)

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.epochs.truncate_from_start(offset)

    def sync(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        self.flushed(self.end)

    def flushed(self, end: int) -> None:
        """Everything before the end is on disk."""
        self.recovery_point = max(self.recovery_point, end)
        self.synced = (self.base, self.start, tuple(self.entries[: max(end - self.base, 0)]))

    def power_cut(self, rng: random.Random) -> None:
        """Loses what was not synced, or a part of it; torn batches are cut off by recovery."""
        base, start, kept = self.synced
        if base == self.base and rng.random() < 0.5:
            common = min(len(kept), len(self.entries))
            self.entries = self.entries[: rng.randint(common, len(self.entries))]
        else:
            self.base, self.start, self.entries = base, start, list(kept)
        self.start = max(self.base, min(self.start, self.end))
        self._begin_where_kept()
        self.high_watermark = min(max(self.high_watermark, self.start), self.end)
        self._recover()

    def forget_start(self, rng: random.Random) -> None:
        """A killed process: the log begins where the checkpoint says, or where a segment begins."""
        self.start = rng.randint(max(self.kept_start, self.base), self.start)

    def _begin_where_kept(self) -> None:
        """Recovery makes a log anew that ends before the start that the checkpoint has."""
        if self.kept_start > self.end:
            self.restart_at(self.kept_start)
        self.start = max(self.start, self.kept_start)

    def lose_tail(self, rng: random.Random) -> None:
        """A failed write: pages that could not be written are gone."""
        self.write_failed()
        common = len(self.synced[2]) if self.synced[0] == self.base else 0
        keep = rng.randint(min(common, len(self.entries)), len(self.entries))
        del self.entries[keep:]
        self.start = min(self.start, self.end)
        self._begin_where_kept()
        self._recover()

    def write_failed(self) -> None:
        """Nothing is sure of what the disk will hold, though all may be there (ENOSPC)."""
        if self.writing:
            self.writing = []
            self.epochs.truncate_from_end(self.end)
        self.lineage = failed(self.lineage)

    def reopen(self) -> None:
        """What a new process reads: producers are rebuilt from the log."""
        self.noted.opened(self.base, self.entries)

    def _recover(self) -> None:
        self._cut_at(self.end)
        self.epochs.clear()
        for number, entry in enumerate(self.entries):
            if self.base + number >= self.start and entry[0] > self.epochs.latest:
                self.epochs.assign(entry[0], self.base + number)
        self.noted.files_are_lost()
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        self.noted.rebuild(self.base, self.entries)
