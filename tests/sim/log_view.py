"""A simulated log as the product's data plane sees one: the parts of `PartitionLog` that it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.log.append_info import LogAppendInfo
from tests.sim.disk import SimLog
from tests.sim.disk_writes import LeaderWrite
from tests.sim.log_producers import Entry

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

FETCH_ENTRIES_MAX: Final = 16
NEVER: Final = 1 << 62


class Found(NamedTuple):
    """What a read gives; its records are entries, not bytes."""

    data: list[Entry]
    length: int
    next_offset: int


class LogView:
    """Of one replica, as long as it has the log. Most parts of a log are this object, too."""

    def __init__(self, process: NodeProcess, log: SimLog) -> None:
        self._log = log
        self.stored_high_watermark = log.high_watermark
        """What the replica has told the log; the checkpoint is `SimLog.high_watermark`."""
        self.writer = _Writer(process, log)
        self.late_writer = _LateWriter(process, log)
        self.extent = self.stall = self.durability = self.reader = self
        self.producers = self.transactions = self.epochs = self

    # ---- the log's extent ----

    @property
    def log_start_offset(self) -> int:
        return self._log.start

    @property
    def start_offset(self) -> int:
        return self._log.start

    @property
    def log_end_offset(self) -> int:
        return self._log.end

    @property
    def end_offset(self) -> int:
        return self._log.end

    # ---- what is flushed ----

    @property
    def recovery_point(self) -> int:
        return self._log.recovery_point

    @property
    def flush_at_offset(self) -> int:
        log = self._log
        return log.recovery_point + log.flush_messages if log.flush_messages else NEVER

    # ---- a disk that hangs: memory for what waits is never scarce ----

    @property
    def stalled(self) -> bool:
        return self._log.stalled

    def admit(self, nbytes: int) -> bool:
        return nbytes >= 0

    def leave(self, nbytes: int) -> None:
        """What has waited is written or refused."""

    # ---- epochs, producers and transactions ----

    @property
    def cache(self) -> LeaderEpochCache:
        return self._log.epochs

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        return self._log.epochs.end_offset_for(epoch, self._log.end)

    @property
    def states(self) -> ProducerStates:
        return self._log.producers

    def before_abort(self, aborted: AbortedTransaction, info: LogAppendInfo) -> None:
        del info
        self._log.noted.index(aborted)

    def aborted(self, first: int, end: int) -> list[tuple[int, int]]:
        return [
            (one.producer_id, one.first_offset) for one in self._log.noted.aborted_in(first, end)
        ]

    # ---- reads ----

    def read(self, offset: int, _nbytes: int, *, end_offset: int, **_how: object) -> Found | None:
        end = min(end_offset, offset + FETCH_ENTRIES_MAX)
        entries = self._log.read(offset, end)
        return Found(entries, len(entries), offset + len(entries)) if entries else None


class _Writer:
    """As `LogWriter`."""

    def __init__(self, process: NodeProcess, log: SimLog) -> None:
        self._process = process
        self._log = log

    def append(self, info: LogAppendInfo) -> None:
        log, process = self._log, self._process
        log.noted.judged_end = info.next_offset
        for entry in log.noted.entries(info):
            log.append(entry)
            process.world.observer.appended(process, entry)


class _LateWriter:
    """As `LateWriter`: the disk's thread writes."""

    def __init__(self, process: NodeProcess, log: SimLog) -> None:
        self._process = process
        self._log = log

    @property
    def writing(self) -> bool:
        return bool(self._log.writing)

    @property
    def end_offset(self) -> int:
        return self._log.end + len(self._log.writing) if self._log.writing else 0

    def append(
        self,
        info: LogAppendInfo,
        done: Callable[[], None],
        aborted: AbortedTransaction | None = None,
    ) -> bool:
        noted = self._log.noted
        if aborted is not None:
            noted.index(aborted)
        noted.judged_end = info.next_offset
        self._process.disk.write_later(noted.entries(info), LeaderWrite(done))
        return True
