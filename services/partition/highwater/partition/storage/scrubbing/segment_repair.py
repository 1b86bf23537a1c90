"""Heals a damaged range of a log in place: fetches it from others, checks it, swaps it in (R13).

Runs on the loop that owns the log; all work on files runs on threads, a piece at a time and at the
configured rate. During a repair the log counts as being cleaned: nothing else replaces its
segments, and a truncation or deletion ends the repair.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.repair import Outcome
from highwater.partition.storage.cleaning.swap import AbortedError, CleaningRun
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.errors import DamagedHeaderError, LogDirFailure
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.scrubbing.scrub import SegmentFile
from highwater.partition.storage.scrubbing.segment_rebuild import SegmentGoneError, SegmentRebuild
from highwater.partition.storage.segment.segment import Segment

REPAIR_BYTES_PER_S: Final = 32 << 20
"""Bytes per second that one directory spends on repairs, written and read."""

Ask = Callable[[int, int, int], Awaitable["bytes | Outcome"]]
"""(node, offset, end offset) -> the next whole batches of that range, at least one; or why none."""
_T = TypeVar("_T")


class NotNowError(Exception):
    """The log cannot be repaired now, but perhaps later."""


async def heal(
    entry: HostedLog,
    base: int,
    first: int,
    end: int,
    *,
    nodes: Sequence[int],
    ask: Ask,
    fail: Callable[[LogDirFailure], None],
    bytes_per_s: int = REPAIR_BYTES_PER_S,
) -> tuple[bool, dict[int, Outcome]]:
    """Heals the records [first, end) of the segment that begins at `base`. Returns whether they
    are intact now, and each asked node's outcome. `nodes` are asked in order until one has them.

    `fail` takes the log's directory offline, also if the files of a repair cannot be removed.
    Raises NotNowError.
    """
    log = entry.log
    found = closed_segment(log, base)
    if found is None or log.cleaning.running is not None or end > log.stored_high_watermark:
        raise NotNowError
    run = CleaningRun(entry, found[1].next_base_offset, on_abort=lambda: None, fail=fail)
    log.cleaning.running = run
    rebuild = SegmentRebuild(
        entry.directory.filesystem,
        found[1],
        epochs=LeaderEpochCache(log.epochs.cache.entries()),
        index_bytes=log.config.segment_index_bytes,
        index_interval=log.config.index_interval_bytes,
        gaps=log.extent.gaps,
    )
    repair = _Repair(run, rebuild, ask, bytes_per_s)
    try:
        return await repair.carry_out(base, first, end, nodes)
    except (AbortedError, SegmentGoneError, TimeoutError) as error:
        raise NotNowError(str(error)) from error
    except OSError as error:
        # A full disk, for example; other users of the directory notice if it fails.
        raise NotNowError(str(error)) from error
    finally:
        try:
            await asyncio.to_thread(_remove_files, rebuild)
        except OSError as error:
            fail(LogDirFailure(log.directory, error))
        finally:
            _end(run, fail)


class _Repair:
    """One call of `heal`."""

    def __init__(
        self, run: CleaningRun, rebuild: SegmentRebuild, ask: Ask, bytes_per_s: int
    ) -> None:
        self._run = run
        self._rebuild = rebuild
        self._ask = ask
        self._bytes_per_s = bytes_per_s

    async def carry_out(
        self, base: int, first: int, end: int, nodes: Sequence[int]
    ) -> tuple[bool, dict[int, Outcome]]:
        rebuild, log = self._rebuild, self._run.entry.log
        outcomes: dict[int, Outcome] = {}
        if not await self._work(partial(rebuild.find, first, end)):
            self._healed(first, end)
            return True, outcomes
        for node in nodes:
            outcome = await self._from(node)
            while outcome is Outcome.DIFFERS and rebuild.widen():
                outcome = await self._from(node)
            outcomes[node] = outcome
            if outcome is Outcome.WHOLE:
                await self._run.replace([base], index_bytes=log.config.segment_index_bytes)
                self._healed(rebuild.range.offset, max(rebuild.range.end_offset, end))
                return True, outcomes
        return False, outcomes

    async def _from(self, node: int) -> Outcome:
        """Fills the range from one node, and completes the new file if that succeeds."""
        rebuild = self._rebuild
        if rebuild.range.end_offset > self._run.entry.log.stored_high_watermark:
            raise NotNowError("not committed yet")
        await self._work(rebuild.restart)
        while not rebuild.filled:
            data = await self._ask(node, rebuild.wanted, rebuild.range.end_offset)
            if isinstance(data, Outcome):
                return data
            wrong = await self._work(partial(rebuild.take, data))
            if wrong or not data:
                return Outcome.DIFFERS
            await self._pause(len(data))
        while nbytes := await self._work(rebuild.copy):
            await self._pause(nbytes)
        try:
            await self._work(rebuild.finish)
        except DamagedHeaderError:
            return Outcome.DIFFERS
        return Outcome.WHOLE

    def _healed(self, first: int, end: int) -> None:
        log = self._run.entry.log
        try:
            log.lost.healed(first, end)
        except LogDirFailure as failure:
            self._run.fail(failure)

    async def _work(self, work: Callable[[], _T]) -> _T:
        self._run.check()
        result = await asyncio.to_thread(self._with_lock, work)
        self._run.check()
        return result

    def _with_lock(self, work: Callable[[], _T]) -> _T:
        with self._rebuild.busy:
            return work()

    async def _pause(self, nbytes: int) -> None:
        await asyncio.sleep(nbytes / self._bytes_per_s)
        self._run.check()


def _end(run: CleaningRun, fail: Callable[[LogDirFailure], None]) -> None:
    """Lets the log be cleaned and repaired again."""
    cleaning = run.entry.log.cleaning
    if cleaning.running is run:
        cleaning.running = None
    try:
        run.abort()
    except LogDirFailure as failure:
        fail(failure)


def _remove_files(rebuild: SegmentRebuild) -> None:
    """Closes and removes the files, after a piece of work that may still run on its thread.

    Raises OSError.
    """
    with rebuild.busy:
        rebuild.close()
        rebuild.remove()


def closed_segment(log: PartitionLog, base: int) -> tuple[Segment, SegmentFile] | None:
    """The segment that begins at `base`, if it is there and another one follows."""
    bases = [segment.base_offset for segment in log.extent.all]
    number = bisect_right(bases, base) - 1
    if number < 0 or bases[number] != base or number == len(bases) - 1:
        return None
    segment = log.extent.all[number]
    return segment, SegmentFile(
        path=segment.file,
        inode=segment.inode,
        size=segment.size,
        base_offset=base,
        next_base_offset=bases[number + 1],
    )
