"""Decides when to take a shard's snapshots, and writes them without stopping the loop."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Generic

from highwater.partition.coordinator.core.values import ResponseT
from highwater.partition.coordinator.kind import CoordinatorKind, ShardT
from highwater.partition.coordinator.log_port import CoordinatorLog, LogPlace
from highwater.partition.coordinator.records import RecordT
from highwater.partition.coordinator.shard import Captured
from highwater.partition.coordinator.snapshot import SnapshotStore, encode_snapshot
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

NO_EPOCH: Final = -1


class SnapshotWriter(Generic[RecordT]):
    """Writes the snapshots of one shard, one at a time; lives as long as the shard's host.

    The state is copied on the loop. A thread writes the copy once everything in it is committed,
    so a snapshot never reaches above the high watermark.
    """

    def __init__(
        self,
        partition: int,
        kind: CoordinatorKind[ShardT, RecordT, ResponseT],
        *,
        log: CoordinatorLog,
        store: SnapshotStore,
        tasks: TaskOwner,
        logger: Logger,
        bytes_min: int,
    ) -> None:
        """A snapshot is due when the log has log_grew by `bytes_min` and by the last one's size."""
        self._partition = partition
        self._name = kind.name
        self._event = kind.event
        self._codec = kind.codec
        self._magic = kind.snapshot_magic
        self._log = log
        self._store = store
        self._tasks = tasks
        self._logger = logger
        self._bytes_min = bytes_min
        self._grown_bytes = 0
        self._last_bytes = 0
        self._place: LogPlace | None = None
        self._saving: asyncio.Task[None] | None = None

    def loaded(self, place: LogPlace, log_bytes: int) -> None:
        """The shard was loaded from `place`; `log_bytes` of its log are after the last snapshot."""
        self._place = place
        self._grown_bytes = log_bytes

    def log_grew(self, nbytes: int) -> bool:
        """`nbytes` more of the log are committed; whether a snapshot may be `due`."""
        self._grown_bytes += nbytes
        return self._grown_bytes >= self._bytes_min

    @property
    def log_has_grown(self) -> bool:
        """Whether the log has log_grew since the last snapshot."""
        return self._grown_bytes > 0

    @property
    def saving(self) -> bool:
        """Whether a snapshot is being written."""
        return self._saving is not None

    @property
    def due(self) -> bool:
        """Whether the next snapshot should be taken."""
        return not self.saving and self._grown_bytes >= max(self._bytes_min, self._last_bytes)

    def take(
        self, state: Captured[RecordT], at_offset: Callable[[Callable[[int], None]], None]
    ) -> None:
        """Write `state`, a copy, once `at_offset` tells the committed offset that it matches."""
        self._grown_bytes = 0
        at_offset(partial(self._start, state))

    def _start(self, state: Captured[RecordT], offset: int) -> None:
        if self.saving:
            return
        epoch = self._log.epoch_before(self._partition, offset)
        if epoch == NO_EPOCH or self._log.high_watermark(self._partition) < offset:
            # Without its epoch, loading could not check that the snapshot fits the log.
            self._logger.warning(self._event("snapshot_dropped"), reason="its epoch is not known")
            return
        name = f"{self._name}-snapshot-{self._partition}"
        self._saving = self._tasks.start(self._save(state, epoch, offset), name=name)

    async def _save(self, state: Captured[RecordT], epoch: int, offset: int) -> None:
        try:
            self._last_bytes = await asyncio.to_thread(self._write, state, epoch, offset)
        except FileNotFoundError:
            self._logger.info(self._event("snapshot_dropped"), reason="its topic was deleted")
        except OSError:
            # The log has everything; the next snapshot is due after as many bytes again.
            self._logger.exception(self._event("snapshot_failed"), offset=offset)
        finally:
            self._saving = None

    def _write(self, state: Captured[RecordT], epoch: int, offset: int) -> int:
        place = self._place
        assert place is not None, "a snapshot needs a loaded log"
        data = encode_snapshot(
            state, self._codec, self._magic, last_epoch=epoch, offset=offset, place=place
        )
        self._store.save(place, data)
        return len(data)

    async def wait(self) -> None:
        """Waits until nothing is being written."""
        if self._saving is not None:
            await asyncio.wait({self._saving})
