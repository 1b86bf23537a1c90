"""Heals damaged logs in place, one range at a time, with other replicas' records (R13).

The scrubber, reads, coordinators and recovery report damage to `damaged`. Each log directory runs
one repair at a time, paced. If other replicas cannot give a range at the moment, the repair is
tried again after a growing pause. Damage that is found during the pause, or during the try before
it, does not wait for its end. A log that cannot be healed in place is fetched again as a whole
(`quarantine`), once another in-sync replica has proven that it lives and is whole. A log without
other replicas keeps what is intact. Runs on the node's loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from highwater.model.ids import TopicId
from highwater.model.time import Clock
from highwater.partition.core.repair import (
    Outcome,
    Verdict,
    damaged_parts,
    newly_lost,
    proven,
    sources,
    verdict,
)
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.replicas import Replicas
from highwater.partition.storage.directory.hosted_directory import HostedDirectory, HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.scrubbing.segment_repair import NotNowError, heal
from highwater.runtime.logging import Logger

LOOK_EVERY_S: Final = 5.0
"""Logs also note damage themselves: at a start, and when they cannot append to a segment."""
RETRY_MS_MIN: Final = 500
RETRY_MS_MAX: Final = 30_000
TRIES_APART_MS: Final = 500
"""At least, from the beginning of a failed try to the next: a bad disk may yield damage all the time.
"""
HOPE_MS: Final = 30_000
"""For how long readers of a damaged record get a retriable error, not that it is lost."""

Key = tuple[TopicId, int]


class RangeSource(Protocol):
    """Replicas on other nodes; see `replication.follower.range_client`."""

    async def ask(
        self,
        node: int,
        topic_id: TopicId,
        partition: int,
        leader_epoch: int,
        offset: int,
        end_offset: int,
    ) -> bytes | Outcome:
        """The next whole batches of a range, or why there are none."""
        ...


@dataclass(slots=True)
class _Case:
    """A replica whose damage is not healed yet."""

    since_ms: int
    retry_ms: int
    """Earliest time of the next try, on the monotonic clock, if no more damage is found."""
    pause_ms: int
    tried_ms: int
    """When the last try began."""
    tried_ranges: tuple[tuple[int, int], ...] = ()
    """The damaged ranges that the last try knew, [first, end) offsets."""
    tried_unplaced: str = ""
    unplaced: str = ""
    """What is wrong, if the damaged range is not known; such a log cannot be healed in place."""
    told: Verdict | None = None
    """The last logged text."""


@dataclass(slots=True)
class RepairStats:
    """For metrics; counted since the start."""

    healed: int = 0
    """Healed ranges."""
    replaced: int = 0
    """Replicas that stepped back, to be fetched again as a whole."""
    waiting: int = 0
    """Replicas with damage at the moment."""
    not_healable: int = 0
    """Of those, replicas whose lost records no other reachable replica has."""


class Repairs:
    """See the module."""

    def __init__(
        self,
        *,
        plane: DataPlane,
        replicas: Replicas,
        manager: LogManager,
        source: RangeSource,
        clock: Clock,
        log: Logger,
        on_healed: Callable[[PartitionLog], None],
        on_stepped_back: Callable[[], None],
    ) -> None:
        """`on_healed` is called for each log after a range is healed, `on_stepped_back` so that
        the node reports its offline replicas to the controller.
        """
        self._on_healed = on_healed
        self._plane = plane
        self._replicas = replicas
        self._manager = manager
        self._source = source
        self._clock = clock
        self._log = log
        self._on_stepped_back = on_stepped_back
        self._cases: dict[Key, _Case] = {}
        self._wake: dict[int, asyncio.Event] = {}
        self._healed = 0
        self._replaced = 0

    @property
    def stats(self) -> RepairStats:
        """The numbers now."""
        verdicts = [case.told for case in self._cases.values()]
        return RepairStats(
            healed=self._healed,
            replaced=self._replaced,
            waiting=len(verdicts),
            not_healable=verdicts.count(Verdict.KEEP),
        )

    def damaged(self, replica: PartitionReplica, unplaced: str = "") -> bool:
        """Heals a replica's log as soon as possible; True if other replicas may have its records.

        Damage that a failed try has known waits for the next one, however often it is reported.
        `unplaced`: what is wrong with the log, if the damaged range is not known.
        """
        case = self._case(replica)
        case.unplaced = case.unplaced or unplaced
        if replica.log_dir in self._wake:
            self._wake[replica.log_dir].set()
        return bool(self._sources(replica))

    def may_heal_soon(self, replica: PartitionReplica) -> bool:
        """Whether damaged records may soon be readable, so that a client should retry."""
        case = self._cases.get((replica.topic_id, replica.partition))
        if case is None:
            return bool(replica.log.lost.ranges) and bool(self._sources(replica))
        if case.told is Verdict.KEEP or not self._sources(replica):
            return False
        return self._clock.monotonic_ms() - case.since_ms < HOPE_MS

    def is_whole(self, replica: PartitionReplica) -> bool:
        """Whether no damage of the replica's log is known."""
        case = self._cases.get((replica.topic_id, replica.partition))
        return not replica.log.rotten and (case is None or not case.unplaced)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for hosted in self._manager.dirs:
                self._wake[hosted.index] = asyncio.Event()
                group.create_task(self._directory(hosted))

    async def _directory(self, hosted: HostedDirectory) -> None:
        wake = self._wake[hosted.index]
        while hosted.failure is None:
            wake.clear()
            for replica in list(self._damaged_in(hosted)):
                await self._look_at(replica)
            await self._wait(wake, hosted)

    async def _wait(self, wake: asyncio.Event, hosted: HostedDirectory) -> None:
        now_ms = self._clock.monotonic_ms()
        due = [self._due_ms(replica) - now_ms for replica in self._damaged_in(hosted)]
        pause_s = min([LOOK_EVERY_S, *(max(ms, 50) / 1000 for ms in due)])
        try:
            async with asyncio.timeout(pause_s):
                await wake.wait()
        except TimeoutError:
            return

    def _damaged_in(self, hosted: HostedDirectory) -> Iterator[PartitionReplica]:
        """The damaged replicas; forgets those that are healed."""
        for key, replica in list(self._plane.replicas.items()):
            case = self._cases.get(key)
            if replica.log.lost.ranges or case is not None:
                if replica.log_dir != hosted.index:
                    continue
                if replica.failed or not (replica.log.rotten or (case and case.unplaced)):
                    self._cases.pop(key, None)
                    continue
                if case is None:
                    # The log may have closed a damaged segment itself. Otherwise a restart looks
                    # for the log's end there and drops what follows.
                    self._manager.keep_flushed(replica.log)
                yield replica
        for key in [key for key in self._cases if key not in self._plane.replicas]:
            del self._cases[key]

    def _case(self, replica: PartitionReplica) -> _Case:
        key = (replica.topic_id, replica.partition)
        case = self._cases.get(key)
        if case is None:
            now_ms = self._clock.monotonic_ms()
            case = self._cases[key] = _Case(
                since_ms=now_ms, retry_ms=now_ms, pause_ms=RETRY_MS_MIN, tried_ms=now_ms
            )
        return case

    def _due_ms(self, replica: PartitionReplica) -> int:
        """When the replica's next try may begin, on the monotonic clock."""
        case = self._case(replica)
        if case.unplaced != case.tried_unplaced or newly_lost(
            replica.log.lost.ranges, case.tried_ranges
        ):
            return min(case.retry_ms, case.tried_ms + TRIES_APART_MS)
        return case.retry_ms

    async def _look_at(self, replica: PartitionReplica) -> None:
        case, now_ms = self._case(replica), self._clock.monotonic_ms()
        if now_ms < self._due_ms(replica):
            return
        case.tried_ms = now_ms
        case.tried_ranges, case.tried_unplaced = replica.log.lost.ranges, case.unplaced
        try:
            found, outcomes = await self._repair(replica)
        except Exception:  # noqa: BLE001 - one log's bug must not end the node; it is logged.
            self._log.exception("repair_failed", topic=replica.topic_name)
            found, outcomes = Verdict.RETRY, {}
        if replica.failed or not self._is_here(replica):
            return
        if found is Verdict.HEALED:
            case.pause_ms, case.retry_ms = RETRY_MS_MIN, self._clock.monotonic_ms()
            self._wake_readers(replica)
            return
        if found is Verdict.REPLACE and self._replicas.step_back(replica, proven(outcomes)):
            self._replaced += 1
            self._log_unhealed(replica, case, found, outcomes)
            self._on_stepped_back()
            return
        case.retry_ms = self._clock.monotonic_ms() + case.pause_ms
        case.pause_ms = min(2 * case.pause_ms, RETRY_MS_MAX)
        self._log_unhealed(replica, case, found, outcomes)

    async def _repair(self, replica: PartitionReplica) -> tuple[Verdict, dict[int, Outcome]]:
        """Tries to heal the first damaged range; gives the verdict and each node's outcome."""
        log = replica.log
        entry = next((e for e in self._manager.entries() if e.log is log), None)
        if entry is None:
            return Verdict.RETRY, {}
        bases = [segment.base_offset for segment in log.extent.all]
        parts = damaged_parts(log.lost.ranges, log.log_start_offset, bases, log.log_end_offset)
        nodes = self._sources(replica)
        if not parts:
            return await self._ask_for_undamaged_logs(replica, nodes)
        found, last = Verdict.RETRY, dict[int, Outcome]()
        for base, first, end in parts:
            try:
                healed, last = await self._heal(entry, replica, base, first, end, nodes)
            except NotNowError:
                continue
            found = Verdict.HEALED if healed else verdict(last)
            if healed:
                self._healed += 1
                self._on_healed(log)
                self._log.info(
                    "damage_healed",
                    topic=replica.topic_name,
                    partition=replica.partition,
                    first_offset=first,
                    end_offset=end,
                    source=next((n for n, o in last.items() if o is Outcome.WHOLE), -1),
                )
            if found in (Verdict.HEALED, Verdict.REPLACE):
                break
        if found is Verdict.REPLACE:
            # They can read this range; another one may be damaged there.
            able = proven(last)
            return await self._ask_for_undamaged_logs(replica, tuple(n for n in nodes if n in able))
        return found, last

    async def _heal(
        self,
        entry: HostedLog,
        replica: PartitionReplica,
        base: int,
        first: int,
        end: int,
        nodes: tuple[int, ...],
    ) -> tuple[bool, dict[int, Outcome]]:
        def fail(failure: LogDirFailure) -> None:
            self._manager.fail_dir(entry.directory.index, failure)

        ask = partial(self._ask, replica)
        return await heal(entry, base, first, end, nodes=nodes, ask=ask, fail=fail)

    async def _ask(
        self, replica: PartitionReplica, node: int, offset: int, end_offset: int
    ) -> bytes | Outcome:
        return await self._source.ask(
            node,
            replica.topic_id,
            replica.partition,
            replica.leader_epoch,
            offset,
            end_offset,
        )

    async def _ask_for_undamaged_logs(
        self, replica: PartitionReplica, nodes: tuple[int, ...]
    ) -> tuple[Verdict, dict[int, Outcome]]:
        """What follows if nothing can be put back in place: an empty range asks for the whole log."""
        outcomes: dict[int, Outcome] = {}
        offset = replica.log.log_start_offset
        for node in nodes:
            answer = await self._ask(replica, node, offset, offset)
            outcomes[node] = answer if isinstance(answer, Outcome) else Outcome.DIFFERS
        return verdict(outcomes), outcomes

    def _sources(self, replica: PartitionReplica) -> tuple[int, ...]:
        found = self._replicas.record_of(replica)
        if found is None:
            return ()
        return sources(found[1], replica.core.node, self._replicas.ineligible)

    def _is_here(self, replica: PartitionReplica) -> bool:
        return self._plane.replicas.get((replica.topic_id, replica.partition)) is replica

    def _wake_readers(self, replica: PartitionReplica) -> None:
        """Readers that wait for the damaged range try again."""
        if replica.waiters.fetches:
            replica.waiters.caught_up()
        replica.tell_listeners()

    def _log_unhealed(
        self, replica: PartitionReplica, case: _Case, found: Verdict, outcomes: dict[int, Outcome]
    ) -> None:
        if case.told is found:
            return
        case.told = found
        tell = self._log.info if found is Verdict.RETRY else self._log.warning
        tell(
            "damage_not_healed",
            topic=replica.topic_name,
            partition=replica.partition,
            next=found.value,
            answers={node: outcome.value for node, outcome in outcomes.items()},
        )
