"""A coordinator topic in memory; the test decides about commits and failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    RecordBatchView,
    iter_batches,
    set_base_offset_and_epoch,
)
from highwater.kafka.records.builder import end_transaction_marker
from highwater.model.ids import TopicId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.log_port import LogPlace
from highwater.partition.core.verifications import Verification, Verifications

TOPIC_ID = TopicId(b"consumer offsets")


def place_of(partition: int, directory: str = "(memory)", topic_id: TopicId = TOPIC_ID) -> LogPlace:
    return LogPlace(topic_id=topic_id, partition=partition, directory=directory)


class MemoryLog:
    """`CoordinatorLog` over lists of batches.

    `hold` keeps appends waiting until `commit` or `refuse`; `fail_with` refuses at once, and
    `refuse_with` says so before.
    """

    def __init__(self, *, hold: bool = False, in_call: bool = False) -> None:
        self.batches: dict[int, list[tuple[int, bytes]]] = {}
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        """High watermarks."""
        self.awaited: list[tuple[int, int, Callable[[], object]]] = []
        self.held: list[tuple[int, int, Callable[[int, int], None]]] = []
        self.hold = hold
        self.in_call = in_call
        """Call back inside `append` instead of in the next turn."""
        self.producer_epochs: dict[int, int] = {}
        self.open: set[tuple[int, int]] = set()
        """Producers and their epochs in open transactions."""
        self.verifications = Verifications()
        self.refused_markers = 0
        """The code of `refuse_marker`."""
        self.fail_with = 0
        self.refuse_with = 0
        self.appends: list[tuple[int, int, int]] = []
        """(partition, leader epoch, records)"""
        self.reads: list[tuple[int, int]] = []
        self.rechecked: list[tuple[int, int]] = []

    def append(
        self,
        partition: int,
        leader_epoch: int,
        batch: bytes,
        on_committed: Callable[[int, int], None],
    ) -> None:
        (view,) = iter_batches(batch)
        assert view.crc_ok()
        self.appends.append((partition, leader_epoch, view.record_count))
        if self.fail_with:
            self._call(on_committed, self.fail_with, -1)
            return
        base = self.end.get(partition, 0)
        data = bytearray(batch)
        set_base_offset_and_epoch(data, 0, base, leader_epoch)
        self.batches.setdefault(partition, []).append((base, bytes(data)))
        self.end[partition] = base + view.last_offset_delta + 1
        if self.hold:
            self.held.append((partition, base, on_committed))
            return
        self._commit(partition)
        self._call(on_committed, 0, base)

    def append_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        on_committed: Callable[[int, int], None],
    ) -> None:
        batch = end_transaction_marker(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=0,
        )
        self.append(partition, leader_epoch, batch, on_committed)

    def refuse_producer(self, partition: int, producer_id: int, producer_epoch: int) -> int:
        old = producer_epoch < self.producer_epochs.get(producer_id, -1)
        return ErrorCode.INVALID_PRODUCER_EPOCH if old else 0

    def in_transaction(self, partition: int, producer_id: int, producer_epoch: int) -> bool:
        return (producer_id, producer_epoch) in self.open

    def ask_verification(
        self, partition: int, producer_id: int, producer_epoch: int
    ) -> Verification:
        return self.verifications.asked(producer_id, producer_epoch, -1)

    def grant_verification(
        self, partition: int, producer_id: int, verification: Verification
    ) -> bool:
        return self.verifications.grant(producer_id, verification)

    def end_verification(self, partition: int, marker: TransactionMarker) -> None:
        self.verifications.ended(
            marker.producer_id, marker.producer_epoch, strict=marker.transaction_version >= 2
        )

    def refuse_marker(self, partition: int, marker: TransactionMarker) -> int:
        return self.refused_markers

    def _call(self, on_committed: Callable[[int, int], None], error: int, base: int) -> None:
        if self.in_call:
            on_committed(error, base)
        else:
            asyncio.get_running_loop().call_soon(on_committed, error, base)

    def commit(self) -> None:
        """Commit everything that is held."""
        held, self.held = self.held, []
        for partition, base, on_committed in held:
            self._commit(partition)
            on_committed(0, base)

    def _commit(self, partition: int) -> None:
        self.committed[partition] = self.end[partition]
        awaited, self.awaited = self.awaited, []
        for wanted in awaited:
            self.when_committed(*wanted)

    def refuse(self, error: int) -> None:
        """Truncate everything that is held and report `error`."""
        held, self.held = self.held, []
        for partition, base, _ in reversed(held):
            self.batches[partition].pop()
            self.end[partition] = base
        for _, _, on_committed in held:
            on_committed(error, -1)

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        self.reads.append((partition, offset))
        found = b""
        for index, (_, data) in enumerate(self.batches.get(partition, [])):
            after = [b for b, _ in self.batches[partition][index + 1 :]]
            next_base = after[0] if after else self.end[partition]
            if next_base <= offset:
                continue
            if found and len(found) + len(data) > max_bytes:
                break
            found += data
        return found

    def recheck(self, partition: int, offset: int) -> None:
        self.rechecked.append((partition, offset))

    def place(self, partition: int) -> LogPlace:
        return place_of(partition)

    def log_start_offset(self, partition: int) -> int:
        return self.start.get(partition, 0)

    def log_end_offset(self, partition: int) -> int:
        return self.end.get(partition, 0)

    def high_watermark(self, partition: int) -> int:
        return self.committed.get(partition, 0)

    def when_committed(self, partition: int, offset: int, tell: Callable[[], object]) -> None:
        if self.high_watermark(partition) >= offset:
            tell()
        else:
            self.awaited.append((partition, offset, tell))

    def epoch_before(self, partition: int, offset: int) -> int:
        if not self.start.get(partition, 0) < offset <= self.log_end_offset(partition):
            return -1
        below = [data for base, data in self.batches.get(partition, []) if base < offset]
        return RecordBatchView(below[-1], 0, len(below[-1])).leader_epoch if below else -1

    def refusal(self, partition: int, leader_epoch: int) -> int:
        return self.refuse_with


class MemorySnapshots:
    """`SnapshotStore` over a dict."""

    def __init__(self) -> None:
        self.files: dict[int, bytes] = {}
        self.saves = 0
        self.fail = False
        self.open = threading.Event()
        self.open.set()

    def load(self, place: LogPlace) -> bytes | None:
        # Called in a thread: loading waits here until the test lets it go on.
        assert self.open.wait(timeout=5)
        return self.files.get(place.partition)

    def save(self, place: LogPlace, data: bytes) -> None:
        if self.fail:
            raise OSError(28, "No space left on device")
        self.files[place.partition] = data
        self.saves += 1


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def monotonic_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.ms
