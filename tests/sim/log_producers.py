"""What a simulated log knows of its producers, and what of a batch is in it."""

from __future__ import annotations

from functools import lru_cache

from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.log.append_info import LogAppendInfo

Entry = tuple[int, int, int, int]
"""(leader epoch, value, producer id, sequence)."""


class SimBatch(bytearray):
    """A client's batch of one record, as the product's append checks it; a log has its entry."""

    __slots__ = ("entry",)

    def __init__(self, value: int, producer_id: int, sequence: int) -> None:
        super().__init__(_encoded(value, producer_id, sequence))
        self.entry = value, producer_id, sequence


@lru_cache(maxsize=256)
def _encoded(value: int, producer_id: int, sequence: int) -> bytes:
    """A batch that is sent again is not built again."""
    builder = (
        RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        if producer_id >= 0
        else RecordBatchBuilder()
    )
    builder.append(key=None, value=b"%d" % value, timestamp_ms=0)
    return bytes(builder.build())


class LogProducers:
    """Of one log, as long as it lives; here of idempotent producers in epoch 0."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.judged_end = 0
        """A leader notes a batch when it judges it, before the log has it."""

    def opened(self, base: int, entries: list[Entry]) -> None:
        """Another process reads the log: nothing that the one before had in memory is left."""
        self.states = ProducerStates()
        self.rebuild(base, entries)

    def note(self, offset: int, entry: Entry) -> None:
        """The entry is in the log."""
        if entry[2] >= 0 and offset >= self.judged_end:
            self.states.record_append(entry[2], 0, entry[3], offset, 0, 0)

    def rebuild(self, base: int, entries: list[Entry]) -> None:
        """The log has these entries, from offset `base` on."""
        self.states.clear()
        self.judged_end = 0
        for offset, entry in enumerate(entries, base):
            self.note(offset, entry)

    def files_are_lost(self) -> None:
        """Whatever is beside the log may be of another one: the disk has lost a part of the log."""

    def entries(self, info: LogAppendInfo) -> list[Entry]:
        """What an append puts into the log."""
        made = []
        for batch in info.buffers:
            assert isinstance(batch, SimBatch)
            made.append((info.leader_epoch, *batch.entry))
        return made

    def index(self, aborted: AbortedTransaction) -> None:
        """A transaction that is about to be aborted."""
        raise AssertionError(f"{aborted} without transactions")

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap these offsets."""
        del first, end
        return []
