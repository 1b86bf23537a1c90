"""The disk of one simulated process: what its thread writes, and flushes.

Whom a leader answers then, and when, the product's `AppendAnswers` says (`role`); what a follower does
is as in `replication.follower.following` of the partition service. While the disk is stalled, a thread
writes one thing at a time, and roles may change before it has ended. With flush.messages, the end of
the log counts only when a flush has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tests.sim.deletions import Deletions
from tests.sim.disk import SimLog
from tests.sim.log_producers import Entry

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

WRITE_MS_MAX = 20
FLUSH_MS_MAX = 30
PAUSED_MS = 20
"""A process that is paused gets the answers of its disk later."""


class LeaderWrite(NamedTuple):
    """What a leader appends: `done` is called when it is in the log, whatever the replica is by then."""

    done: Callable[[], None]


class FollowerWrite(NamedTuple):
    """What an answer to a fetch gave a follower."""

    leader_epoch: int
    high_watermark: int
    log_start: int


class DiskWrites:
    """One process's, from its start to its end; the log may change."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self.deletions = Deletions(process)
        self.written_from = 0
        """Where the records begin that the thread wrote last."""
        self._flushed_ms = 0
        """When the last flush that was begun ends: they end in order."""

    # ---- writes ----

    def write_later(self, entries: list[Entry], what: LeaderWrite | FollowerWrite) -> None:
        """The disk's thread writes the entries, which have one leader epoch."""
        process = self._process
        log = process.log
        for number, entry in enumerate(entries):
            process.world.observer.writes(process, entry, log.end + number, entries[:number])
        log.begin_writing(entries)
        self._when_done(WRITE_MS_MAX, self._written, log, entries, what)

    def _when_done(self, ms_max: int, done: object, *args: object) -> None:
        world = self._process.world
        hangs_ms = max(self._process.log.hangs_until_ms - world.now, 0)
        delay_ms = hangs_ms + 1 + world.disk_random.randrange(ms_max)
        world.after(delay_ms, self._done, done, *args)

    def _done(self, done: object, log: SimLog, *args: object) -> None:
        process = self._process
        if process.world.processes.get(process.node) is not process or process.log is not log:
            return  # The disk has it or not; nobody here is told.
        if process.paused:
            process.world.after(PAUSED_MS, self._done, done, log, *args)
            return
        assert callable(done)
        done(log, *args)

    def _written(
        self, log: SimLog, entries: list[Entry], what: LeaderWrite | FollowerWrite
    ) -> None:
        process = self._process
        if log.writing is not entries:
            return  # The log has failed.
        log.writing = []
        self.written_from = log.end
        for entry in entries:
            log.append(entry)
            process.world.observer.appended(process, entry)
        if isinstance(what, LeaderWrite):
            process.part.run(what.done)
            return
        if process.replica.may_fetch(what.leader_epoch):
            process.take_offsets(what)
            self.follow_on()
        else:
            process.role.written_late(entries[-1][0], log.end, 0)
            self.after_late_write()
        process.part.run(process.role.answers.go_on)

    def after_late_write(self) -> None:
        """A write of a follower has ended in another role than it was begun in."""
        self.follow_on()

    def follow_on(self) -> None:
        """After records that no client of this leader waits for: a flush if it is due, and a fetch."""
        process = self._process
        view = process.role.log
        if view.extent.end_offset >= view.durability.flush_at_offset:
            self.flush(view, self._follower_flushed)
        else:
            process.fetch()

    def _follower_flushed(self) -> None:
        role = self._process.role
        role.log_end_moved()
        role.fetch_again()

    # ---- flushes ----

    def flush(self, _log: object, done: Callable[[], None]) -> None:
        """Writes what the log has now; then calls back, unless the process or its log has gone."""
        log, world = self._process.log, self._process.world
        hangs_ms = max(log.hangs_until_ms - world.now, 0)
        delay_ms = hangs_ms + 1 + world.disk_random.randrange(FLUSH_MS_MAX)
        self._flushed_ms = max(self._flushed_ms, world.now + delay_ms)
        delay_ms = self._flushed_ms - world.now
        world.after(delay_ms, self._done, self._flushed, log, log.end, log.truncations, done)

    def _flushed(self, log: SimLog, end: int, truncations: int, done: Callable[[], None]) -> None:
        if truncations == log.truncations:
            log.flushed(end)
        self._process.part.run(done)
