"""Runs one shard: loading, calls, timers, commits, snapshots.

Lifecycle: LOADING (calls are refused) -> ACTIVE -> CLOSED when the node resigns the partition. A
failed append or a bug discards the shard and goes back to LOADING, with a growing pause. A host is
one node's view of a partition that it leads in one leader epoch. The next epoch, on this node or
another, has its own host, which loads from the log.
"""

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.time import Clock
from highwater.partition.coordinator.append_errors import client_error
from highwater.partition.coordinator.commit_queue import CommitQueue
from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment, Reply, ResponseT
from highwater.partition.coordinator.kind import CoordinatorKind, ShardT
from highwater.partition.coordinator.loading import LoadReport, load_shard
from highwater.partition.coordinator.log_port import CoordinatorLog, LogPlace
from highwater.partition.coordinator.records import RecordT
from highwater.partition.coordinator.shard import Shard
from highwater.partition.coordinator.snapshot import SnapshotStore
from highwater.partition.coordinator.snapshotting import SnapshotWriter
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

_RELOAD_PAUSE_S: Final = 0.1
_RELOAD_PAUSE_S_MAX: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Limits of the shell around a shard."""

    batch_bytes_max: int = 1_000_012
    """At most max.message.bytes of the coordinator's topic."""
    uncommitted_bytes_max: int = 16 * 1024 * 1024
    """Above this many uncommitted bytes, calls that write are refused."""
    waiting_max: int = 100_000
    """Answers that wait for a commit; above this, calls are refused."""
    commit_timeout_ms: int = 5_000
    """[offsets.commit.timeout.ms] How long an answer waits for its records to be committed."""
    snapshot_bytes: int = 4 * 1024 * 1024
    """A snapshot is due when the log has log_grew by this much and by the last snapshot's size."""


class HostState(enum.Enum):
    """Whether a host serves calls."""

    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts(Generic[ShardT, RecordT, ResponseT]):
    """What all hosts of one coordinator share."""

    kind: CoordinatorKind[ShardT, RecordT, ResponseT]
    settings: HostSettings
    log: CoordinatorLog
    snapshots: SnapshotStore
    clock: Clock
    logger: Logger
    tasks: TaskOwner


class ShardHost(Generic[ShardT, RecordT, ResponseT]):
    """Runs one shard; everything happens on the loop, except writing snapshots."""

    def __init__(
        self,
        partition: int,
        leader_epoch: int,
        parts: HostParts[ShardT, RecordT, ResponseT],
    ) -> None:
        """Begins to load at once."""
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = HostState.LOADING
        self._parts = parts
        self._name = parts.kind.name
        self._event = parts.kind.event
        self._follow_ups = parts.kind.follow_ups
        self._encode_reply = parts.kind.replies.encode
        self._deliver = parts.kind.replies.deliver
        self._clock = parts.clock
        self._logger = parts.logger.bind(partition=partition, leader_epoch=leader_epoch)
        self._loop = asyncio.get_running_loop()
        self._served: ShardT | None = None
        """The shard as handlers see it."""
        self._shard: Shard[RecordT, ResponseT] | None = None
        """The same shard as this host sees it."""
        self._queue: CommitQueue[RecordT] | None = None
        self._deadlines = TimerHeap()
        self._deadline_of: dict[object, Timer] = {}
        self._armed_ms: int | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._reload_pause_s = _RELOAD_PAUSE_S
        self._while_loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        """The answer to calls while the shard is not there."""
        self._snapshots = SnapshotWriter(
            partition,
            parts.kind,
            log=parts.log,
            store=parts.snapshots,
            tasks=parts.tasks,
            logger=self._logger,
            bytes_min=parts.settings.snapshot_bytes,
        )
        self._closing = False
        self._loader = parts.tasks.start(self._load(0), name=self._loader_name)

    # -- calls --------------------------------------------------------------------------------

    @property
    def shard(self) -> ShardT | ErrorCode:
        """The shard, or the error code if it is not there."""
        if self._served is not None and not self._closing:
            return self._served
        if self.state is HostState.LOADING:
            return self._while_loading
        return ErrorCode.NOT_COORDINATOR

    def refusal(self, *, writes: bool) -> ErrorCode:
        """Why a call is refused although the shard is there; NONE if it is not.

        While the log refuses appends, the shard decides nothing: a failed append would make the
        whole shard load again.
        """
        queue, settings = self._queue, self._parts.settings
        if queue is None:
            return ErrorCode.NONE
        if queue.has_more_than(settings.uncommitted_bytes_max, settings.waiting_max):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        refused = self._parts.log.refusal(self.partition, self.leader_epoch) if writes else 0
        return client_error(refused) if refused else ErrorCode.NONE

    def moment(self) -> Moment:
        """Both clocks' time now."""
        return Moment(self._clock.monotonic_ms(), self._clock.wall_ms())

    def settle(self, now: Moment | None = None, *, at_leisure: bool = False) -> None:
        """Carry out the shard's decisions: queue records for the log, deliver answers.

        `now`: when they were made, if the caller knows. `at_leisure`: nobody waits for them
        (`CommitQueue.add`).
        """
        shard, queue = self._shard, self._queue
        if shard is None or queue is None:
            return
        records = shard.take_records()
        if records:
            wall_ms = self._clock.wall_ms() if now is None else now.wall_ms
            queue.add(records, wall_ms, at_leisure=at_leisure)
        served = self._served
        if served is not None:
            for follow_up in self._follow_ups(served, self.partition, self.leader_epoch):
                queue.when_committed(follow_up)
        replies = shard.take_replies()
        if replies:
            self._answer(queue, replies)
        self._arm()

    def _answer(self, queue: CommitQueue[RecordT], replies: list[Reply[ResponseT]]) -> None:
        for token, response, after_commit in replies:
            assert isinstance(token, CoordinatorCall)
            timer = self._deadline_of.pop(token, None)
            if timer is not None:
                self._deadlines.cancel(timer)
            body = self._encode_reply(token, response)
            if after_commit:
                now_ms = self._clock.monotonic_ms()
                queue.after_commit(partial(self._deliver, token, body), now_ms)
            else:
                self._deliver(token, body, 0)

    def after_commit(self, tell: Callable[[int], None], now_ms: int | None = None) -> None:
        """`tell(0)` when everything decided so far is committed, else an error code. `now_ms` is the
        monotonic clock, if the caller knows it.
        """
        queue = self._queue
        if queue is None:
            tell(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        queue.after_commit(tell, self._clock.monotonic_ms() if now_ms is None else now_ms)
        if self._queue is queue:
            self._arm_for(queue.next_deadline_ms())

    def park(self, call: CoordinatorCall) -> None:
        """If the call waits, end its wait when its client's request times out."""
        shard = self._shard
        if shard is None or not shard.is_parked(call):
            return
        timer = Timer(partial(self._time_out, call))
        self._deadline_of[call] = timer
        self._deadlines.set(timer, self._clock.monotonic_ms() + max(call.deadline_ms, 0))
        self._arm()

    def forget(self, call: CoordinatorCall) -> None:
        """The client is gone: remove everything of its call."""
        timer = self._deadline_of.pop(call, None)
        if timer is not None:
            self._deadlines.cancel(timer)
        if self._shard is not None and self._shard.is_parked(call):
            self._shard.forget_call(call, self.moment())
            self.settle()

    def _time_out(self, call: CoordinatorCall, now: Moment) -> None:
        """The client's request timed out: as in `forget`, but answer the call."""
        self._deadline_of.pop(call, None)
        if self._shard is not None:
            self._shard.forget_call(call, now)
        self._deliver(call, b"", ErrorCode.REQUEST_TIMED_OUT)

    # -- timers -------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Wake up at the next deadline of the shard, of a parked call or of a waiting answer."""
        shard, queue = self._shard, self._queue
        if shard is None or queue is None:
            return
        for deadline_ms in (
            shard.next_deadline_ms(),
            self._deadlines.next_deadline_ms(),
            queue.next_deadline_ms(),
        ):
            armed_ms = self._armed_ms
            if deadline_ms is not None and (armed_ms is None or armed_ms > deadline_ms):
                self._arm_for(deadline_ms)

    def _arm_for(self, deadline_ms: int | None) -> None:
        """Wake up by then, if not before. An alarm that comes too early does no harm."""
        if deadline_ms is None or (self._armed_ms is not None and self._armed_ms <= deadline_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._armed_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._alarm = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._armed_ms = self._alarm = None
        shard, queue = self._shard, self._queue
        if shard is None or queue is None:
            return
        now = self.moment()
        try:
            queue.expire(now.now_ms, client_error(ErrorCode.REQUEST_TIMED_OUT))
            shard.expire(now)
            self._deadlines.expire(now)
            self.settle(now)
        except Exception as error:  # noqa: BLE001 - a bug costs the shard a reload, not the node.
            self.crash("a timer", error)

    # -- failure ------------------------------------------------------------------------------

    def crash(self, during: str, error: Exception) -> None:
        """A bug raised an error: the state can no longer be trusted, so load it again."""
        self._logger.error(self._event("shard_crashed"), during=during, exc_info=error)
        self._unload(ErrorCode.UNKNOWN_SERVER_ERROR, HostState.LOADING)
        self._reload()

    def resign(self) -> None:
        """Another node leads the partition now; this host does not load again."""
        self._unload(ErrorCode.NOT_COORDINATOR, HostState.CLOSED)
        self._loader.cancel()

    def _append_failed(self, error: int) -> None:
        """The state has records that the log lacks: load again from the log."""
        self._logger.warning(self._event("append_failed"), error=error)
        code = client_error(error)
        if code is ErrorCode.NOT_COORDINATOR:
            self._while_loading = code
        self._unload(code, HostState.LOADING)
        self._reload()

    def _unload(self, error: ErrorCode, state: HostState) -> None:
        """Drop the shard; every call that waits for it gets `error`."""
        self.state = state
        shard, self._shard = self._shard, None
        self._served = None
        queue, self._queue = self._queue, None
        if self._alarm is not None:
            self._alarm.cancel()
        self._armed_ms = self._alarm = None
        self._deadlines = TimerHeap()
        self._deadline_of = {}
        waiting: dict[object, None] = {}
        if shard is not None:
            waiting = dict.fromkeys(shard.parked_tokens())
            waiting.update(dict.fromkeys(reply.token for reply in shard.take_replies()))
        if queue is not None:
            queue.fail(error)
        for token in waiting:
            assert isinstance(token, CoordinatorCall)
            self._deliver(token, b"", error)

    # -- loading ------------------------------------------------------------------------------

    @property
    def _loader_name(self) -> str:
        return f"{self._name}-load-{self.partition}"

    def _reload(self) -> None:
        if self.state is HostState.CLOSED:
            return
        pause_s = self._reload_pause_s
        self._reload_pause_s = min(2 * pause_s, _RELOAD_PAUSE_S_MAX)
        self._loader = self._parts.tasks.start(self._load(pause_s), name=self._loader_name)

    async def _load(self, pause_s: float) -> None:
        parts = self._parts
        if pause_s:
            await asyncio.sleep(pause_s)
        try:
            place = parts.log.place(self.partition)
            shard, report = await load_shard(
                parts.kind, place=place, log=parts.log, snapshots=parts.snapshots
            )
        except Exception:
            # A failing disk may recover, and the partition may move meanwhile.
            self._logger.exception(self._event("load_failed"))
            self._has_lost_partition()
            self._reload()
            return
        if self.state is not HostState.LOADING:
            return
        if self._has_lost_partition():
            self._reload()
            return
        try:
            self._activate(shard, place, report)
        except Exception as error:  # noqa: BLE001 - never serve a half-loaded shard.
            self.crash("activation", error)

    def _has_lost_partition(self) -> bool:
        """Whether the epoch or the log has ended; the node will then resign this host."""
        refused = self._parts.log.refusal(self.partition, self.leader_epoch)
        if not refused or client_error(refused) is not ErrorCode.NOT_COORDINATOR:
            return False
        self._while_loading = ErrorCode.NOT_COORDINATOR
        return True

    def _activate(self, served: ShardT, place: LogPlace, report: LoadReport) -> None:
        log, settings, end = self._parts.log, self._parts.settings, report.next_offset
        caught_up = log.high_watermark(self.partition) >= end
        self._logger.info(
            self._event("shard_loaded"),
            next_offset=end,
            committed=caught_up,
            from_snapshot=report.from_snapshot,
            from_log=report.from_log,
            skipped=report.skipped,
        )
        if report.snapshot_problem is not None:
            self._logger.warning(self._event("snapshot_ignored"), reason=report.snapshot_problem)
        queue = self._queue = CommitQueue(
            encode=self._parts.kind.codec.encode,
            transactions=self._parts.kind.codec.transactions,
            append=partial(log.append, self.partition, self.leader_epoch),
            append_marker=partial(log.append_marker, self.partition, self.leader_epoch),
            next_offset=end,
            batch_bytes_max=settings.batch_bytes_max,
            timeout_ms=settings.commit_timeout_ms,
            call_soon=self._loop.call_soon,
            call_later=self._loop.call_later,
            on_failure=self._append_failed,
            on_committed=self._committed,
            caught_up=caught_up,
        )
        if not caught_up:
            catch_up = partial(self._loop.call_soon, queue.catch_up)
            log.when_committed(self.partition, end, catch_up)
        self._served = served
        shard = self._shard = self._parts.kind.hosted(served)
        self.state = HostState.ACTIVE
        self._while_loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shard.activate(self.moment())
        self._parts.kind.activated(served)
        self._snapshots.loaded(place, report.log_bytes)
        self.settle()
        self._snapshot_if_due()

    # -- snapshots ----------------------------------------------------------------------------

    def _committed(self, batch_bytes: int) -> None:
        self._reload_pause_s = _RELOAD_PAUSE_S
        if self._snapshots.log_grew(batch_bytes):
            self._snapshot_if_due()

    def _snapshot_if_due(self) -> None:
        if self._snapshots.due:
            self._loop.call_soon(self._take_if_due)

    def _take_if_due(self) -> None:
        if self._snapshots.due:
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        """Copy the state now; it is written once everything in it is committed."""
        shard, queue = self._shard, self._queue
        if shard is None or queue is None or self._snapshots.saving:
            return
        queue.flush()
        if self._queue is not queue:
            return  # The flush failed at once and dropped the queue.
        self._snapshots.take(shard.capture(), queue.at_offset)

    async def close(self) -> None:
        """Clean stop: commit what is decided, write a snapshot, resign.

        The caller sets the time limit; being cancelled loses nothing but the snapshot.
        """
        self._closing = True
        await self._snapshots.wait()
        if self._queue is not None:
            committed = asyncio.Event()
            self.after_commit(lambda _: committed.set())
            self._queue.flush()
            await committed.wait()
        if self._snapshots.log_has_grown:
            self._take_snapshot()
        await self._snapshots.wait()
        self.resign()
