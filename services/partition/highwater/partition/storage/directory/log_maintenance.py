"""The periodic work on a node's logs: retention, flush.ms, checkpoints, removals, old producers.

It runs on the loop that owns the logs, a few logs at a time, and leaves the disk work to the
directories' workers. Defaults are Kafka's (`log.retention.check.interval.ms` and so on).
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
"""Looked at before the loop gets to do something else; about half a millisecond's work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceIntervals:
    """Milliseconds between passes."""

    retention_ms: int = 300_000
    checkpoint_ms: int = 60_000
    """Recovery points and log starts; high watermarks in one go."""
    high_watermark_ms: int = 5_000
    """They tell a start what readers have seen: below min.insync.replicas nothing moves them on."""
    flush_ms: int = 500
    """How often flush.ms is looked after: it is kept to this precision."""
    tails_ms: int = 2_000
    """How far what a start after kill -9 reads may fall behind: see `PartitionLog.shorten_tail`."""
    removal_ms: int = 200
    """How late file.delete.delay.ms may be: space that nobody uses is wanted back."""
    producer_expiration_ms: int = 600_000
    evictions_ms: int = 60_000
    """How often producers that were evicted are told of, if there were any."""


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
        """Runs all passes for ever, each at its interval; to be cancelled."""
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
        """Forgets producers that have been silent for producer.id.expiration.ms."""
        for number, entry in enumerate(self._manager.entries(), start=1):
            for part, _ in enumerate(entry.log.producers.expire()):
                if part:
                    yield
            if number % LOGS_PER_STEP == 0:
                yield

    def evictions(self) -> Iterator[None]:
        """Tells, once each interval, that there were too many producers."""
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
        """Starts a sync of logs whose last one is flush.ms ago."""
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
        """Writes index entries and producers that a start would have to find out."""
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
        """Removes files whose delay is over."""
        for hosted in self._manager.online():
            hosted.remove_due()
            yield

    def _each(self, work: Callable[[HostedLog], object]) -> Iterator[None]:
        """Does something with every log that is there now and still there when its turn comes."""
        for number, entry in enumerate(self._manager.entries(), start=1):
            if entry.directory.failure is None and self._manager.holds(entry):
                with self._manager.guard(entry.directory):
                    work(entry)
            if number % LOGS_PER_STEP == 0:
                yield
