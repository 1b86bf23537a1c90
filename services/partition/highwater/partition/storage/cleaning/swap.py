"""Tracks one cleaning of a log on the node, and puts its new segments into the log.

Renames run on the owner's loop, as for deletion, and the syncs between them on the directory's
worker. The order is that of `compaction_swap.swap` except for one step: the log takes over the new
segment under its `.swap` name in the same turn in which the old files are renamed, so that a reader
always finds a file. The segment gets its final name after the next sync.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from highwater.partition.storage.cleaning.job import GroupWritten
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import sync_directory, unlink_if_present
from highwater.partition.storage.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from highwater.partition.storage.recovery.segment_ends import write_gaps_inside
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

SYNC_S_MAX: Final = 120.0
"""Limit for one sync on the directory's worker; other code notices a disk that hangs longer."""
_T = TypeVar("_T")
_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The log file comes first: without it the indexes are useless."""
_OPTIONAL: Final = (TRANSACTION_INDEX_SUFFIX,)
"""A segment without aborted transactions has no such file."""


def _nothing() -> None:
    """Do nothing after the sync."""


class AbortedError(Exception):
    """The log was truncated, deleted or closed, or its directory has failed."""


class CleaningRun:
    """Implements `log_cleaning.Cleaning`, from the job's creation to its last swap; on one loop.

    `on_abort` is called at most once, on the loop, from within the call that changes the log.
    """

    def __init__(
        self,
        entry: HostedLog,
        end_offset: int,
        *,
        on_abort: Callable[[], None],
        fail: Callable[[LogDirFailure], None],
    ) -> None:
        """`entry`'s log must have no other cleaning. `fail` takes its directory offline."""
        self.entry = entry
        self.end_offset = end_offset
        self.aborted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_abort = on_abort
        self.fail = fail
        self._swapping: int | None = None
        """Base offset of new files that count after a crash but are not in the log yet."""

    def abort(self) -> None:
        """See `Cleaning`. Remove new files that would become part of the log after a crash.

        Raises LogDirFailure.
        """
        if self.aborted.done():
            return
        self.aborted.set_result(None)
        self._on_abort()
        if self._swapping is not None:
            self._forget(self._swapping)

    def _forget(self, base: int) -> None:
        log, directory = self.entry.log, self.entry.directory
        try:
            for suffix in _SUFFIXES:
                name = os.path.join(log.directory, offset_file(base, suffix))
                for end in (SWAP_SUFFIX, CLEANED_SUFFIX):
                    unlink_if_present(directory.filesystem, name + end)
        except OSError as error:
            if directory.failure is None:
                raise LogDirFailure(log.directory, error) from error

    async def swap(self, group: GroupWritten, *, index_bytes: int) -> None:
        """Replace a group's segments in the log by its new files.

        Raises AbortedError, TimeoutError.
        """
        await self.mark_gaps()
        await self.replace(group.bases, index_bytes=index_bytes)

    async def mark_gaps(self) -> None:
        """Make the marker that the log may have gaps, with content and name on disk.

        Raises AbortedError, TimeoutError.
        """
        self.check()
        log = self.entry.log
        if log.extent.gaps:
            return
        await self._on_disk(partial(write_gaps_inside, self.entry.directory.filesystem))
        log.cleaning.gaps_marked()

    async def replace(self, bases: Sequence[int], *, index_bytes: int) -> None:
        """Replace the segments with these base offsets by `<bases[0]>.*.cleaned`.

        Raises AbortedError, TimeoutError.
        """
        self.check()
        log = self.entry.log
        base = bases[0]
        wanted = frozenset(bases)
        old = [segment for segment in log.extent.all if segment.base_offset in wanted]
        assert [segment.base_offset for segment in old] == list(bases)
        self._swapping = base
        for suffix in _SUFFIXES[1:]:
            self._guarded(partial(self._rename, base, suffix))
        await self._sync()
        # From this rename on, the new files count after a crash.
        self._guarded(partial(self._rename, base, LOG_SUFFIX))
        await self._sync()
        new = self._guarded(partial(self._take_over, base, old, index_bytes))
        self._swapping = None
        await self._sync(then=partial(self._finish, new))
        await self._sync()

    def _rename(self, base: int, suffix: str) -> None:
        name = os.path.join(self.entry.log.directory, offset_file(base, suffix))
        rename = self.entry.directory.filesystem.rename
        try:
            rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
        except FileNotFoundError:
            if suffix not in _OPTIONAL:
                raise

    def _take_over(self, base: int, old: list[Segment], index_bytes: int) -> Segment:
        log, directory = self.entry.log, self.entry.directory
        factory = SegmentFactory(
            log.directory,
            index_bytes=index_bytes,
            filesystem=directory.filesystem,
            files=directory.files,
            maps=directory.maps,
        )
        new = factory.existing(base, SWAP_SUFFIX)
        log.cleaning.replace_segments(old, new)
        return new

    def _finish(self, new: Segment) -> None:
        """Give the new segment its final name, unless it was removed; also after `abort`."""
        if new.deleted:
            return
        rename = self.entry.directory.filesystem.rename
        try:
            for file in reversed(new.index_files()):
                if file.count or not file.path.endswith(TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX):
                    rename(file.path, file.path.removesuffix(SWAP_SUFFIX))
            rename(new.file, new.file.removesuffix(SWAP_SUFFIX))
        except OSError as error:
            self.fail(LogDirFailure(new.file, error))
            return
        new.without_suffix(SWAP_SUFFIX)

    def check(self) -> None:
        """Raise AbortedError if the cleaning was aborted."""
        if self.aborted.done():
            raise AbortedError

    def _guarded(self, work: Callable[[], _T]) -> _T:
        """Run `work` on the files, unless the cleaning was aborted."""
        self.check()
        try:
            return work()
        except LogDirFailure as failure:
            self.fail(failure)
            raise AbortedError from failure
        except OSError as error:
            self.fail(LogDirFailure(self.entry.log.directory, error))
            raise AbortedError from error

    async def _sync(self, then: Callable[[], None] = _nothing) -> None:
        """Wait until the directory's names are on disk; run `then` after that, even if aborted."""
        await self._on_disk(partial(sync_directory, self.entry.directory.filesystem), then)

    async def _on_disk(
        self, work: Callable[[str], None], then: Callable[[], None] = _nothing
    ) -> None:
        """Wait until the directory's worker has done `work` in the log's directory."""
        log = self.entry.log
        path = log.directory
        synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def sync() -> None:
            try:
                work(path)
            except OSError as error:
                if not log.life.excuses(error):
                    raise LogDirFailure(path, error) from error

        def done() -> None:
            then()
            synced.set_result(None)

        self.entry.directory.run_later(sync, done)
        await asyncio.wait(
            {synced, self.aborted}, timeout=SYNC_S_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        self.check()
        if not synced.done():
            raise TimeoutError(f"{path} was not synced within {SYNC_S_MAX} s")
