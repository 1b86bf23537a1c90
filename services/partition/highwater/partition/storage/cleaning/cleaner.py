"""The cleaner of a node: compacts its logs one at a time, the dirtiest first (Kafka's LogCleaner).

It runs on the loop that owns the logs and only decides and renames; a child process does the work.
A log that cannot be cleaned is not tried again; the others go on. As in Kafka, only the cleaner's
checkpoint survives a restart.
"""

import asyncio
import os
from base64 import b64encode
from dataclasses import dataclass
from typing import Final, assert_never

from highwater.model.time import Clock
from highwater.partition.storage.cleaning.candidates import Candidate, candidate_of
from highwater.partition.storage.cleaning.child_process import ChildError, CleanerProcess
from highwater.partition.storage.cleaning.job import (
    IO,
    UNREADABLE,
    CleaningDone,
    CleaningFailed,
    CleaningJob,
    GroupWritten,
    Progress,
)
from highwater.partition.storage.cleaning.settings import CleanerSettings
from highwater.partition.storage.cleaning.swap import AbortedError, CleaningRun
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.filesystem import unlink_if_present
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import CLEANED_SUFFIX
from highwater.runtime.logging import Logger

LOGS_PER_STEP: Final = 50
"""Logs examined before the loop runs something else."""
BYTES_PER_KEY: Final = 200
"""Memory per key of the child's offset map: a digest, an offset and their share of a dict.
Measured: 130 at 670 000 keys; a growing dict keeps its old table as well for a moment."""
ATTEMPTS_MAX: Final = 3
"""Consecutive failures until a log counts as uncleanable. I/O errors do not count: a full disk may
have room again."""
RETRY_MS_MAX: Final = 600_000
"""Pause between two attempts; it doubles each time."""


@dataclass(slots=True, kw_only=True)
class CleanerStats:
    """Counts since the start, for metrics. Bytes are those of `.log` files."""

    runs: int = 0
    """Completed passes."""
    failed_runs: int = 0
    aborted_runs: int = 0
    """Passes that ended because the log changed or was deleted."""
    bytes_before: int = 0
    bytes_after: int = 0
    records_dropped: int = 0
    uncleanable: int = 0
    """Logs that are not cleaned any more."""
    dirty_ratio_max: float = 0.0
    """The ratio of the dirtiest log at the last look."""


class Cleaner:
    """See the module. Start `run` as a task; read everything else only."""

    def __init__(
        self,
        manager: LogManager,
        *,
        clock: Clock,
        log: Logger,
        settings: CleanerSettings,
        enable: bool = True,
    ) -> None:
        """With `enable` (log.cleaner.enable) false, `run` does nothing."""
        self.stats = CleanerStats()
        self.process: CleanerProcess | None = None
        """The child, while one runs."""
        self._manager = manager
        self._clock = clock
        self._log = log
        self.settings = settings
        """The latest settings."""
        self._enable = enable
        self._reconfigured = asyncio.Event()
        self._failures: dict[HostedLog, _Failures] = {}

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Use new settings from the next pass on; a changed pause applies at once."""
        if settings != self.settings:
            self.settings = settings
            self._reconfigured.set()

    async def run(self) -> None:
        """Search and clean logs until cancelled; the child has ended when this returns."""
        if not self._enable:
            return
        while True:
            await self._pause()
            tried: set[HostedLog] = set()
            while (found := await self._next(tried)) is not None:
                if not await self._clean(found):
                    tried.add(found.entry)  # For the rest of this round, whatever the reason.

    async def _pause(self) -> None:
        """Wait `backoff_ms`, counted from now, even if the setting changes meanwhile."""
        began_s = asyncio.get_running_loop().time()
        while True:
            self._reconfigured.clear()
            left_s = began_s + self.settings.backoff_ms / 1000 - asyncio.get_running_loop().time()
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    await self._reconfigured.wait()
            except TimeoutError:
                return

    async def _next(self, tried: set[HostedLog]) -> Candidate | None:
        """The dirtiest log that is due, or None."""
        for entry in [e for e in self._failures if not self._manager.holds(e)]:
            del self._failures[entry]
        self._count_uncleanable()
        best: Candidate | None = None
        dirty_ratio_max = 0.0
        for number, entry in enumerate(self._manager.entries(), start=1):
            if number % LOGS_PER_STEP == 0:
                await asyncio.sleep(0)
            found = self._look_at(entry)
            if found is None:
                continue
            dirty_ratio_max = max(dirty_ratio_max, found.part.dirty_ratio)
            if (
                found.due
                and entry not in tried
                and (best is None or found.part.dirty_ratio > best.part.dirty_ratio)
            ):
                best = found
        self.stats.dirty_ratio_max = dirty_ratio_max
        return best

    def _look_at(self, entry: HostedLog) -> Candidate | None:
        if not self._usable(entry) or self._is_backing_off(entry):
            return None
        found: Candidate | None = None
        with self._manager.guard(entry.directory):
            try:
                found = candidate_of(entry, self._clock.wall_ms())
            except CorruptLogError as error:
                self._failed(entry, str(error), attempts_max=1)
        return found

    def try_again(self, log: PartitionLog) -> None:
        """Forget the failures of a log whose damage was repaired."""
        for entry in [entry for entry in self._failures if entry.log is log]:
            del self._failures[entry]
        self._count_uncleanable()

    def _is_backing_off(self, entry: HostedLog) -> bool:
        failures = self._failures.get(entry)
        return failures is not None and (
            failures.uncleanable or self._clock.monotonic_ms() < failures.retry_ms
        )

    def _usable(self, entry: HostedLog) -> bool:
        return entry.directory.failure is None and self._manager.holds(entry)

    async def _clean(self, found: Candidate) -> bool:
        """Make one pass over one log; return True if it was completed."""
        entry = found.entry
        log = entry.log
        if not self._usable(entry) or log.cleaning.running is not None:
            return False  # The log has changed since it was examined.
        process = self.process = CleanerProcess()
        run = CleaningRun(
            entry,
            found.part.end,
            on_abort=process.kill,
            fail=lambda failure: self._manager.fail_dir(entry.directory.index, failure),
        )
        log.cleaning.running = run
        try:
            await self._carry_out(run, process, self._job(found))
        except AbortedError:
            self.stats.aborted_runs += 1
            return False
        except (ChildError, TimeoutError, OSError) as error:
            if run.aborted.done():
                self.stats.aborted_runs += 1
            else:
                self._failed(entry, str(error), attempts_max=ATTEMPTS_MAX)
            return False
        except _PassFailedError as error:
            limits = {UNREADABLE: 1, IO: None}
            self._failed(entry, str(error), attempts_max=limits.get(error.kind, ATTEMPTS_MAX))
            return False
        except Exception:  # noqa: BLE001 - a bug here must not end the node; it is logged.
            self._log.exception("cleaner_failed", log=entry.name)
            self._failed(entry, "a bug", attempts_max=1)
            return False
        finally:
            await self._end(run, process)
        self._failures.pop(entry, None)
        return True

    async def _carry_out(self, run: CleaningRun, process: CleanerProcess, job: CleaningJob) -> None:
        await process.start(job)
        before = after = 0
        while True:
            report = await process.next_report()
            match report:
                case Progress():
                    continue
                case GroupWritten():
                    await run.swap(report, index_bytes=job.index_bytes_max)
                    before += report.bytes_before
                    after += report.bytes_after
                case CleaningFailed():
                    run.check()
                    raise _PassFailedError(report)
                case CleaningDone():
                    # A log in the checkpoint must have a marker, even if nothing was removed yet.
                    await run.mark_gaps()
                    self._done(run.entry, report, before, after)
                    return
                case _:
                    assert_never(report)

    def _done(self, entry: HostedLog, report: CleaningDone, before: int, after: int) -> None:
        entry.log.cleaning.first_dirty = report.next_dirty
        self._manager.checkpoint_cleaned(entry.directory)
        stats = self.stats
        stats.runs += 1
        stats.bytes_before += before
        stats.bytes_after += after
        stats.records_dropped += report.records_dropped
        self._log.info(
            "log_cleaned",
            log=entry.name,
            records_kept=report.records_kept,
            records_dropped=report.records_dropped,
            bytes_before=before,
            bytes_after=after,
            first_dirty=report.next_dirty,
        )

    async def _end(self, run: CleaningRun, process: CleanerProcess) -> None:
        """End the child and remove the files that it left, however the pass ended."""
        entry = run.entry
        log = entry.log
        if log.cleaning.running is run:
            log.cleaning.running = None
        with self._manager.guard(entry.directory):
            run.abort()
        if not await process.end():
            self._log.error("cleaner_hangs", pid=process.pid, log=entry.name)
        self.process = None
        if self._usable(entry):
            _remove_leftovers(entry)

    def _job(self, found: Candidate) -> CleaningJob:
        log, part = found.entry.log, found.part
        config = log.config
        spans = [span for span in log.cleaning.spans() if span.next_offset <= part.end]
        return CleaningJob(
            directory=log.directory,
            segments=[(span.base_offset, span.next_offset, span.size) for span in spans],
            index_bytes=[span.index_bytes for span in spans],
            first_dirty=part.first_dirty,
            now_ms=self._clock.wall_ms(),
            delete_retention_ms=config.delete_retention_ms,
            keys_max=max(self.settings.dedupe_buffer_bytes // BYTES_PER_KEY, 1),
            segment_bytes=config.segment_bytes,
            index_bytes_max=config.segment_index_bytes,
            index_interval=config.index_interval_bytes,
            producers=log.producers.states.last_offsets(),
            marked_producers=log.producers.states.marked_epochs(),
            aborted=b64encode(log.transactions.packed()).decode(),
            io_bytes_per_s=self.settings.io_bytes_per_s,
        )

    def _failed(self, entry: HostedLog, error: str, *, attempts_max: int | None) -> None:
        """Count a failed pass; after `attempts_max` in a row the log is not tried again."""
        self.stats.failed_runs += 1
        failures = self._failures.setdefault(entry, _Failures())
        failures.count += 1
        failures.uncleanable = attempts_max is not None and failures.count >= attempts_max
        pause_ms = min(self.settings.backoff_ms << min(failures.count, 10), RETRY_MS_MAX)
        failures.retry_ms = self._clock.monotonic_ms() + pause_ms
        self._count_uncleanable()
        if failures.uncleanable:
            self._log.error("log_uncleanable", log=entry.name, error=error)
        elif failures.count == 1:
            self._log.warning("cleaning_failed", log=entry.name, error=error)

    def _count_uncleanable(self) -> None:
        self.stats.uncleanable = sum(f.uncleanable for f in self._failures.values())


@dataclass(slots=True)
class _Failures:
    """Consecutive failures of one log."""

    count: int = 0
    uncleanable: bool = False
    retry_ms: int = 0
    """The next attempt waits until this time of the monotonic clock."""


class _PassFailedError(Exception):
    """The child reported a failure."""

    def __init__(self, report: CleaningFailed) -> None:
        super().__init__(report.error)
        self.kind = report.kind


def _remove_leftovers(entry: HostedLog) -> None:
    """Remove new files that will not be used; the next start removes any that remain."""
    filesystem, directory = entry.directory.filesystem, entry.log.directory
    try:
        for name in filesystem.listdir(directory):
            if name.endswith(CLEANED_SUFFIX):
                unlink_if_present(filesystem, os.path.join(directory, name))
    except OSError:
        return
