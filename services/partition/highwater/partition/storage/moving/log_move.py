"""One move of a log to another log directory of its node, from the first byte to the last rename.

The log serves as ever while its files are copied; then it is held for a moment, in which nothing is
appended, and goes on with the copy. In this order, each step on disk before the next begins:

1. The copy is whole (`LogCopy.finish`): all files, its mark, and its name in the directory.
2. The checkpoints of the new directory have the log's start, its recovery point, its high watermark
   and the end of its cleaned part: without them deleted records would come back.
3. In one turn of the loop the log's directory is renamed to `<name>.<token>-moved`, and the copy to
   the log's name. Both names are synced, the old one first.
4. Appends go on, in the new directory. What is left of the old one is removed.

`unfinished_moves` says what a start makes of each state in between. Nothing was appended between
the marks and the syncs of step 3, so the log and its copy are equal whichever of them counts.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from highwater.model.time import Clock
from highwater.model.token_bucket import TokenBucket
from highwater.partition.storage.directory.hosted_directory import HostedDirectory, HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.directory.move_mark import MoveMark, read_mark, write_mark
from highwater.partition.storage.directory.unfinished_moves import copy_path, moved_path
from highwater.partition.storage.errors import (
    LogDirFailure,
    MoveGivenUpError,
    StorageError,
)
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.log.log_relocation import LogHold, LogView
from highwater.partition.storage.moving.log_copy import CopyOutdatedError, LogCopy
from highwater.partition.storage.names import deleted_directory
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

SWITCH_BYTES: Final = 16 << 20
"""The log is held when less than this was appended during the last pass over it."""
HELD_S_MAX: Final = 10.0
"""How long one step may take while appends wait; then they go on, and the move is given up."""
QUIET_S_MAX: Final = 600.0
"""How long the directory's worker may be busy before the log is held at all."""
LOOK_S: Final = 0.05
"""How often it looks whether a directory has failed that it waits for."""
PACE_LOOK_S: Final = 0.5
"""A move that waits for its rate looks so often whether it was cancelled; the rate may change, too."""
PASSES_MAX: Final = 10_000
"""Passes over a log that grows faster than it is copied."""
LOOKS_MAX: Final = 5
"""How often the rest is copied in one hold, if DeleteRecords or a flush come in between."""
HOLDS_MAX: Final = 200
"""How often the log is held in vain, `RETRY_S` apart, before the move is given up."""
RETRY_S: Final = 1.0
BUSY_S: Final = 5.0
"""Until the next try to hold a log that is being compacted, or that hangs."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSurroundings:
    """What the moves to one directory share."""

    manager: LogManager
    executor: Executor
    """One thread, on which all work on copies is done in order."""
    pace: TokenBucket
    """Bytes per second of all moves of the node."""
    clock: Clock


class LogMove:
    """See the module. Lives on the node's loop, from the request to its end."""

    def __init__(
        self,
        log: PartitionLog,
        target: HostedDirectory,
        *,
        token: str,
        surroundings: MoveSurroundings,
        on_moved: Callable[[int], None],
        on_released: Callable[[], None],
    ) -> None:
        """`on_moved` is called with the new directory's index in the turn in which the log has its
        files there, `on_released` when appends may go on; then whether or not it has moved.
        `token` is 32 hexadecimal digits.
        """
        self.log = log
        self.target = target
        self.why_not = ""
        """Why the move was cancelled; empty if it was not."""
        self.moved = False
        self.held_ms = 0
        """For how long appends waited, all in all."""
        self._token = token
        self._manager = surroundings.manager
        self._executor = surroundings.executor
        self._pace = surroundings.pace
        self._clock = surroundings.clock
        self._on_moved = on_moved
        self._on_released = on_released
        self._name = os.path.basename(log.directory)
        path = copy_path(target.directory.path, self._name, token)
        assert path is not None, "the caller has looked"
        self._path = path
        self._copy: LogCopy | None = None
        self.begun: asyncio.Future[OSError | None] = self._begin()
        """Done when the copy has its directory, so that a start goes on with the move; the result is
        why it has none, or None. The owner may have it wait for more."""

    @property
    def copied_bytes(self) -> int:
        """Bytes of records in the copy."""
        return 0 if self._copy is None else self._copy.copied_bytes

    @property
    def lag(self) -> int:
        """Records of the log that the copy may lack (Kafka's offset lag)."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        return end - min(max(start, 0 if self._copy is None else self._copy.offset), end)

    def cancel(self, why: str) -> None:
        """Ends it as soon as possible, unless the log has moved already."""
        self.why_not = self.why_not or why

    async def run(self) -> None:
        """Moves the log. Raises MoveGivenUpError if it stays where it is; then call `discard`.

        If a directory fails at the end it goes offline, with the log if it was there.
        """
        entry = self._entry()
        copy = self._copy = LogCopy(entry.directory.filesystem, self.target.filesystem, self._path)
        await self._work(partial(copy.begin, self.log.relocation.view()))
        for _ in range(HOLDS_MAX):
            await self._catch_up(copy)
            await self._quiet(entry.directory, QUIET_S_MAX)
            if await self._switched(entry, copy):
                return
            await asyncio.sleep(RETRY_S)
        raise MoveGivenUpError("the log was changed whenever it was to move")

    async def discard(self) -> None:
        """Removes what was copied. Raises OSError."""
        if self.target.failure is not None:
            return  # The next start finds it.
        gone = os.path.join(self.target.directory.path, deleted_directory(self._name, self._token))
        rename = partial(_rename_if_present, self.target, self._path, gone)
        if await asyncio.get_running_loop().run_in_executor(self._executor, rename):
            self.target.delete_later([gone], 0)

    # -- the copy -------------------------------------------------------------------------------

    def _begin(self) -> "asyncio.Future[OSError | None]":
        def work() -> OSError | None:
            try:
                self.target.filesystem.mkdir(self._path)
            except FileExistsError:
                return None  # A former process has made it.
            except OSError as error:
                return error
            return None

        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def _catch_up(self, copy: LogCopy) -> None:
        """Copies until little was appended during a pass over the log."""
        for _ in range(PASSES_MAX):
            view = self.log.relocation.view()
            nbytes, outdated = 0, False
            try:
                while step := await self._step(partial(copy.step, view)):
                    nbytes += step
                await self._work(partial(copy.sync, view))
            except CopyOutdatedError:
                outdated = True
                await asyncio.sleep(RETRY_S / 10)
            if nbytes <= SWITCH_BYTES and not outdated:
                return
        raise MoveGivenUpError("the log grows faster than it can be copied")

    async def _step(self, work: Callable[[], int]) -> int:
        """One piece, and a pause as long as it took, so that others have half of the disk."""
        begun_ms = self._clock.monotonic_ms()
        nbytes = await self._work(work)
        now_ms = self._clock.monotonic_ms()
        self._pace.charge(now_ms, nbytes)
        await asyncio.sleep((now_ms - begun_ms) / 1000)
        while held_ms := self._pace.hold_ms(self._clock.monotonic_ms(), 0):
            await asyncio.sleep(min(held_ms / 1000, PACE_LOOK_S))
            self._check()
        return nbytes

    async def _work(self, work: Callable[[], _T]) -> _T:
        """Does a piece of work on the copy, on its thread."""
        self._check()
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(self._executor, work)
        except (OSError, StorageError) as error:
            raise _given_up(error) from error
        self._check()
        return result

    def _check(self) -> None:
        if self.why_not:
            raise MoveGivenUpError(self.why_not)
        if self.target.failure is not None:
            raise MoveGivenUpError(f"the directory is offline: {self.target.failure}")
        self._entry()
        if self.log.lost.ranges:
            raise MoveGivenUpError("the log has damaged records")

    def _entry(self) -> HostedLog:
        entry = self._manager.entry_of(self.log)
        if entry is None:
            raise MoveGivenUpError("the log was deleted, or its directory has failed")
        return entry

    # -- the switch -----------------------------------------------------------------------------

    async def _switched(self, entry: HostedLog, copy: LogCopy) -> bool:
        """Holds the log and has it go on with the copy; False if it cannot be held now."""
        try:
            hold = self.log.relocation.hold()
        except LogDirFailure as failure:
            self._manager.fail_dir(entry.directory.index, failure)
            raise MoveGivenUpError(str(failure)) from failure
        if hold is None:
            await asyncio.sleep(BUSY_S)
            return False
        arriving = entry, self.target
        self._manager.arriving.append(arriving)
        begun_ms = self._clock.monotonic_ms()
        try:
            for _ in range(LOOKS_MAX):
                if await self._moved_in(hold, entry, copy):
                    await asyncio.shield(self._names_synced(entry))
                    return True
            return False
        finally:
            self._manager.arriving.remove(arriving)
            if not self.moved and self.target.failure is None:
                self.target.checkpoint_soon()  # They have named a log that is not there.
            self.log.relocation.release(hold)
            self.held_ms += self._clock.monotonic_ms() - begun_ms
            self._on_released()

    async def _moved_in(self, hold: LogHold, entry: HostedLog, copy: LogCopy) -> bool:
        """Steps 1 to 3 up to the renames; False if the log was changed meanwhile."""
        await self._quiet(entry.directory, HELD_S_MAX)  # Producer snapshots, flushes.
        view = self.log.relocation.view(producers=True)
        try:
            segments = await self._finished(copy, view, entry)
        except CopyOutdatedError:
            return False
        await self._checkpointed()
        if entry.flushing or entry.flush_waiters or not self.log.relocation.is_as(view, hold):
            return False
        self._move(entry, segments)
        return True

    async def _finished(self, copy: LogCopy, view: LogView, entry: HostedLog) -> list[Segment]:
        finish = partial(
            copy.finish,
            view,
            token=self._token,
            topic_id=entry.topic_id,
            config=self.log.config,
            now_ms=self._clock.wall_ms(),
        )
        factory = SegmentFactory(
            copy.directory,
            index_bytes=view.index_bytes,
            filesystem=self.target.filesystem,
            files=self.target.files,
            maps=self.target.maps,
        )

        def work() -> list[Segment]:
            finish()
            return copy.segments(view, factory)

        # If it takes too long, the thread goes on with a copy that is not used any more.
        return await _in_time(self._work(work), HELD_S_MAX, "the rest of the copy")

    async def _quiet(self, hosted: HostedDirectory, seconds: float) -> None:
        """Waits until a directory's worker has done what it has to do up to now."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        hosted.run_later(_nothing, partial(_set, done))
        await self._wait(done, seconds, f"other work on {hosted.directory.path}")

    async def _checkpointed(self) -> None:
        """Waits until the new directory's checkpoints have the log (`LogManager.arriving`)."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.target.checkpoint_soon(partial(_set, done))
        await self._wait(done, HELD_S_MAX, "a checkpoint")

    async def _wait(self, done: "asyncio.Future[None]", seconds: float, what: str) -> None:
        """Waits for a job of a directory, which never ends if the directory fails."""
        looks = math.ceil(seconds / LOOK_S)
        for _ in range(looks):
            await asyncio.wait({done}, timeout=LOOK_S)
            self._check()
            if done.done():
                return
        raise _too_slow(what, seconds)

    def _move(self, entry: HostedLog, segments: list[Segment]) -> None:
        """Step 3: the renames, and all that knows the place."""
        source, log = entry.directory, self.log
        aside = moved_path(log.directory, self._token)
        try:
            log.move(self._path, self.target, segments, aside=aside)
        except LogDirFailure as failure:
            self._manager.fail_dir(source.index, failure)
            raise MoveGivenUpError(str(failure)) from failure
        except MoveGivenUpError:
            # The copy may have the log's name after a crash; the log itself has to win then.
            with self._manager.guard(source):
                _outrank(source, log.directory)
            raise
        self._manager.rehost(entry, self.target)
        self.moved = True
        self._on_moved(self.target.index)

    async def _names_synced(self, entry: HostedLog) -> None:
        """The end of step 3, and step 4. A directory that cannot be synced goes offline."""
        loop = asyncio.get_running_loop()
        source = entry.directory
        for hosted in (source, self.target):
            try:
                await loop.run_in_executor(self._executor, hosted.directory.sync)
            except LogDirFailure as failure:
                self._manager.fail_dir(hosted.index, failure)
        if source.failure is None and self.target.failure is None:
            self._remove_old(source)

    def _remove_old(self, source: HostedDirectory) -> None:
        log_directory = os.path.join(source.directory.path, self._name)
        aside = moved_path(log_directory, self._token)
        gone = os.path.join(source.directory.path, deleted_directory(self._name, self._token))
        try:
            source.filesystem.rename(aside, gone)
        except OSError as error:
            self._manager.fail_dir(source.index, LogDirFailure(aside, error))
            return
        # Readers that have its files open may finish, as after a deletion.
        source.delete_later([gone], self.log.config.file_delete_delay_ms)


async def _in_time(wanted: Awaitable[_T], seconds: float, what: str) -> _T:
    """The result, unless it takes too long: MoveGivenUpError."""
    try:
        async with asyncio.timeout(seconds):
            return await wanted
    except TimeoutError as error:
        raise _too_slow(what, seconds) from error


def _too_slow(what: str, seconds: float) -> MoveGivenUpError:
    return MoveGivenUpError(f"{what} took longer than {seconds:g} s")


def _outrank(source: HostedDirectory, directory: str) -> None:
    """Marks a log as newer than a copy that was to replace it, and has its name on disk again.

    Raises LogDirFailure.
    """
    try:
        before = read_mark(source.filesystem, directory)
        mark = MoveMark(token=before.token, generation=before.generation + 2)
        write_mark(source.filesystem, directory, mark)
    except OSError as error:
        raise LogDirFailure(directory, error) from error
    source.directory.sync()


def _rename_if_present(hosted: HostedDirectory, path: str, gone: str) -> bool:
    try:
        hosted.filesystem.rename(path, gone)
    except FileNotFoundError:
        return False
    return True


def _given_up(error: Exception) -> Exception:
    return error if isinstance(error, MoveGivenUpError) else MoveGivenUpError(str(error))


def _set(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def _nothing() -> None:
    """Nothing is left to do on the owner's thread."""
