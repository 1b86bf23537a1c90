"""What one simulated process waits for its disk with: appends, late writes, and flushes.

As `data_plane.replica`, `data_plane.stalled_appends` and `replication.follower.following` of the
partition service, with the same events. While the disk is stalled, a thread writes one thing at a
time, and roles may change before it has ended. With flush.messages, the end of the log counts only
when a flush has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from highwater.partition.core import replica_events as on
from highwater.partition.core.producers import ACCEPT
from highwater.partition.core.transitions import Role
from tests.sim.deletions import Deletions
from tests.sim.disk import SimLog
from tests.sim.log_producers import Entry

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

WRITE_MS_MAX = 20
FLUSH_MS_MAX = 30
PAUSED_MS = 20
"""A process that is paused gets the answers of its disk later."""


def judge_idempotent(log: SimLog, group: Produce) -> int:
    """As `ProducerStates.check`."""
    if group.pid < 0:
        return ACCEPT
    return log.producers.check(group.pid, 0, group.sequence, group.sequence)


Client = int | Callable[[str, tuple[Any, ...]], None]
"""On the network, or in the node's process: then it is called with the answer."""


class Produce(NamedTuple):
    """A client's request."""

    client: Client
    request: int
    epoch: int
    acks: int
    value: int
    pid: int
    sequence: int
    judge: Callable[[SimLog, Produce], int] = judge_idempotent
    """What the log says of it: `ACCEPT`, where it is already, or minus an error code."""


class FollowerWrite(NamedTuple):
    """What an answer to a fetch gave a follower."""

    leader_epoch: int
    high_watermark: int
    log_start: int


class DiskWrites:
    """One process's, from its start to its end; the log may change (`forget`)."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self.deletions = Deletions(process)
        self._waiting: deque[Produce] = deque()
        self._in_hand: Produce | None = None
        """The append that is being written, unless its client has been answered."""
        self._unflushed: dict[int, tuple[Produce, int]] = {}
        """By number, appends with their offsets that wait for a flush."""
        self._flushes = 0
        self._flushed_ms = 0
        """When the last flush that was begun ends: they end in order."""

    # ---- what the process asks ----

    @property
    def busy(self) -> bool:
        """An append has to wait its turn."""
        log = self._process.log
        return log.stalled or bool(log.writing or self._waiting)

    @property
    def idle(self) -> bool:
        """No append waits here, or is being written."""
        return not self._waiting and self._in_hand is None

    @property
    def flushing(self) -> bool:
        """Appends wait for a flush."""
        return bool(self._unflushed)

    @property
    def flush_due(self) -> bool:
        """flush.messages asks for a flush now."""
        log = self._process.log
        return bool(log.flush_messages) and log.end >= log.recovery_point + log.flush_messages

    def counted_end(self) -> int:
        """As `ReplicaRole.counted_end`."""
        log, replica = self._process.log, self._process.replica
        if not self.flush_due:
            return log.end
        return max(log.recovery_point, int(replica.counted_end_offset))

    # ---- appends of a leader ----

    def wait(self, group: Produce) -> None:
        """The append comes after all that wait."""
        self._waiting.append(group)
        self.append_waiting()

    def append_waiting(self) -> None:
        """Appends what waits, until something is being written."""
        process = self._process
        while self._waiting and not process.log.writing and not process.asked.holds:
            process.append(self._waiting.popleft(), waited=True)

    def write_later(self, entries: list[Entry], what: Produce | FollowerWrite) -> None:
        """The disk's thread writes the entries, which have one leader epoch."""
        process = self._process
        log = process.log
        for number, entry in enumerate(entries):
            process.world.observer.writes(process, entry, log.end + number, entries[:number])
        log.begin_writing(entries)
        self._in_hand = what if isinstance(what, Produce) else None
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

    def _written(self, log: SimLog, entries: list[Entry], what: Produce | FollowerWrite) -> None:
        process = self._process
        if log.writing is not entries:
            return  # The log has failed.
        log.writing = []
        offset = log.end
        for entry in entries:
            log.append(entry)
            process.world.observer.appended(process, entry)
        replica = process.replica
        if isinstance(what, Produce) and what is self._in_hand:
            self._in_hand = None
            self.appended(what, offset)
        elif isinstance(what, FollowerWrite) and replica.may_fetch(what.leader_epoch):
            process.take_offsets(what)
            self.follow_on()
        else:
            process.handle(
                on.WrittenLate(
                    leader_epoch=entries[-1][0],
                    log_end_offset=log.end,
                    counted_end_offset=self.counted_end(),
                )
            )
            process.world.observer.written_late(process, offset)
            process.answer_parked()
            self.after_late_write()
        self.append_waiting()

    def after_late_write(self) -> None:
        """A write has ended in another role than it was begun in."""
        self.follow_on()

    def _log_end_moved(self) -> None:
        process = self._process
        process.handle(
            on.LogEndMoved(log_end_offset=process.log.end, counted_end_offset=self.counted_end())
        )
        if process.replica.role is Role.LEADER:
            process.answer_parked()

    def follow_on(self) -> None:
        """After records that no client of this leader waits for: a flush if it is due, and a fetch."""
        if self.flush_due:
            self._flush(-1)
        else:
            self._process.fetch()

    # ---- flushes ----

    def appended(self, group: Produce, offset: int) -> None:
        """A leader's append is in the log: commits it, or waits for a flush first."""
        process = self._process
        if not self.flush_due:
            process.commit(group, offset, new=True)
            return
        self._flushes += 1
        self._unflushed[self._flushes] = (group, offset)
        if process.replica.appended(process.log.end, self.counted_end()) is not None:
            process.high_watermark_moved()
        self._flush(self._flushes)

    def _flush(self, number: int) -> None:
        log, world = self._process.log, self._process.world
        hangs_ms = max(log.hangs_until_ms - world.now, 0)
        delay_ms = hangs_ms + 1 + world.disk_random.randrange(FLUSH_MS_MAX)
        self._flushed_ms = max(self._flushed_ms, world.now + delay_ms)
        delay_ms = self._flushed_ms - world.now
        world.after(delay_ms, self._done, self._flushed, log, log.end, log.truncations, number)

    def _flushed(self, log: SimLog, end: int, truncations: int, number: int) -> None:
        if truncations == log.truncations:
            log.flushed(end)
        process = self._process
        waited = self._unflushed.pop(number, None)
        if waited is not None:
            process.commit(*waited, new=True)
        elif number < 0 or process.replica.counted_end_offset < end <= log.end:
            self._log_end_moved()
            process.fetch()

    # ---- ends ----

    def give_up(self) -> None:
        """The leader's epoch is over: of what was written nobody knows, the rest was not."""
        process = self._process
        for group, _ in self._unflushed.values():
            process.reply(group.client, "on_unknown", (group.request,))
        self._unflushed.clear()
        if self._in_hand is not None:
            process.reply(self._in_hand.client, "on_unknown", (self._in_hand.request,))
            self._in_hand = None
        while self._waiting:
            process.refuse(self._waiting.popleft())
