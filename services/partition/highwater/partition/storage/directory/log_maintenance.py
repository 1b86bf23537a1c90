"""The periodic work on a node's logs: retention, flush.ms, checkpoints, removals, old producers.

It runs on the loop that owns the logs, a few logs at a time; the directories' workers do the disk
work. Defaults are Kafka's (`log.retention.check.interval.ms` and so on).
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from highwater.model.time import Clock
from highwater.partition.storage.config import NEVER
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.runtime.logging import Logger

LOGS_PER_STEP: Final = 50
"""Logs examined before the loop runs something else; about half a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceIntervals:
    """Milliseconds between passes."""

    retention_ms: int = 300_000
    checkpoint_ms: int = 60_000
    """Recovery points, log starts and high watermarks."""
    high_watermark_ms: int = 5_000
    """High watermarks alone. A start needs them: below min.insync.replicas they do not advance."""
    flush_ms: int = 500
    """Precision of flush.ms."""
    tails_ms: int = 2_000
    """Limits how much a start after kill -9 has to read: see `PartitionLog.shorten_tail`."""
    removal_ms: int = 200
    """Precision of file.delete.delay.ms."""
    producer_expiration_ms: int = 600_000
    evictions_ms: int = 60_000
    """Between logs of evicted producers, if there were any."""


def _evictions(entry: HostedLog) -> int:
    return entry.log.producers.states.evicted


class LogMaintenance:
    """Passes over the logs of one manager; each is an iterator that yields between steps."""

    def __init__(
        self, manager: LogManager, *, clock: Clock, intervals: MaintenanceIntervals, log: Logger
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._intervals = intervals
        self._log = log
        self._evictions_told = 0

    async def run(self) -> None:
        """Runs all passes at their intervals until it is cancelled."""
        intervals = self._intervals
        async with asyncio.TaskGroup() as group:
            for make_pass, interval_ms in (
                (self.retention, intervals.retention_ms),
                (self.checkpoints, intervals.checkpoint_ms),
                (self.high_watermarks, intervals.high_watermark_ms),
                (self.flushes, intervals.flush_ms),
                (self.tails, intervals.tails_ms),
                (self.removals, intervals.removal_ms),
                (self.producers, intervals.producer_expiration_ms),
                (self.evictions, intervals.evictions_ms),
            ):
                group.create_task(self._repeat(make_pass, interval_ms))

    async def _repeat(self, make_pass: Callable[[], Iterator[None]], interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for _ in make_pass():
                await asyncio.sleep(0)

    def retention(self) -> Iterator[None]:
        """Deletes segments by retention.ms and retention.bytes."""
        return self._each(lambda entry: entry.log.apply_retention())

    def producers(self) -> Iterator[None]:
        """Expires producers that were silent for producer.id.expiration.ms."""
        for number, entry in enumerate(self._manager.entries(), start=1):
            for part, _ in enumerate(entry.log.producers.expire()):
                if part:
                    yield
            if number % LOGS_PER_STEP == 0:
                yield

    def evictions(self) -> Iterator[None]:
        """Logs, once per interval, that too many producers were evicted."""
        evicted = self._manager.producers.evicted
        if evicted > self._evictions_told:
            worst = max(self._manager.entries(), key=_evictions, default=None)
            self._log.warning(
                "producers_evicted",
                count=evicted - self._evictions_told,
                total=evicted,
                most_of=None if worst is None else worst.name,
                producers=self._manager.producers.count,
                per_node_max=self._manager.producers.limit,
            )
            self._evictions_told = evicted
        yield

    def flushes(self) -> Iterator[None]:
        """Syncs logs whose last sync is flush.ms ago."""
        now_ms = self._clock.monotonic_ms()

        def look(entry: HostedLog) -> None:
            log = entry.log
            flush_ms = log.config.flush_ms
            if flush_ms == NEVER or log.durability.recovery_point >= log.log_end_offset:
                return
            if now_ms - log.durability.flushed_ms >= flush_ms and not entry.flushing:
                entry.directory.flush(entry)

        return self._each(look)

    def tails(self) -> Iterator[None]:
        """Writes index entries and producer states that a start would have to recompute."""
        return self._each(lambda entry: entry.log.shorten_tail())

    def checkpoints(self) -> Iterator[None]:
        """Writes the offset checkpoints."""
        self._manager.checkpoint()
        yield

    def high_watermarks(self) -> Iterator[None]:
        """Writes the high watermarks' checkpoints where any has moved."""
        for hosted in self._manager.online():
            with self._manager.guard(hosted):
                self._manager.checkpoint_high_watermarks(hosted)
            yield

    def removals(self) -> Iterator[None]:
        """Removes files whose deletion delay is over."""
        for hosted in self._manager.online():
            hosted.remover.remove_due()
            yield

    def _each(self, work: Callable[[HostedLog], object]) -> Iterator[None]:
        """Calls `work` with every log that exists now and still does at its turn."""
        for number, entry in enumerate(self._manager.entries(), start=1):
            if entry.directory.failure is None and self._manager.holds(entry):
                with self._manager.guard(entry.directory):
                    work(entry)
            if number % LOGS_PER_STEP == 0:
                yield
