"""Looks at the free space of the node's log directories, and refuses appends where it runs out.

`core.disk_marks` decides. Replicas of a directory that takes nothing at all do not fetch either: they
leave the ISR, and come back when there is space again. The controller hears of those that refuse, so that
others lead where they can.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.core.disk_marks import DiskMark, DiskState, next_state
from highwater.partition.data_plane.full_directory import FullDirectory
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.log_dirs import VolumeSpace, space_of
from highwater.runtime.logging import Logger

POLL_S: Final = 1.0
"""The mark has to be more than what is written meanwhile."""

Key = tuple[TopicId, int]


class DiskGuard:
    """On the node's loop, as long as the node."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        mark: DiskMark,
        *,
        full: dict[int, FullDirectory],
        replicas: Callable[[], Iterable[tuple[Key, PartitionReplica]]],
        is_online: Callable[[int], bool],
        resume: Callable[[PartitionReplica], None],
        is_internal: Callable[[Key], bool],
        tell: Callable[[], None],
        log: Logger,
        space: Callable[[str], VolumeSpace] = space_of,
    ) -> None:
        """`full` is the data plane's table by a directory's index; `resume` lets a replica fetch again.

        `is_internal` tells coordinators' partitions, and `tell` sends a heartbeat: `refusing` is new.
        `space` may block, so threads call it.
        """
        self._paths = [str(path.absolute()) for path in log_dirs]
        self._mark = mark
        self._full = full
        self._replicas = replicas
        self._is_online = is_online
        self._resume = resume
        self._is_internal = is_internal
        self._tell = tell
        self._log = log
        self._space = space
        self._holds = False
        """Whether replicas are held."""
        self._states = dict.fromkeys(range(len(self._paths)), DiskState.OPEN)
        self.refusing: Mapping[TopicId, tuple[int, ...]] = {}
        """Partitions of this node, by topic, that take no appends of those who append to them. Replaced
        as a whole, as the thread of heartbeats reads it."""

    @property
    def states(self) -> Mapping[str, DiskState]:
        """By path."""
        return {self._paths[index]: state for index, state in self._states.items()}

    async def run(self) -> None:
        """Looks once a second until cancelled; a disk that hangs keeps no other from being looked at."""
        async with asyncio.TaskGroup() as group:
            for index in self._states:
                group.create_task(self._watch(index), name=f"disk-guard-{index}")

    async def _watch(self, index: int) -> None:
        while True:
            if self._is_online(index):
                await self._look(index)
            await asyncio.sleep(POLL_S)

    async def _look(self, index: int) -> None:
        try:
            # While the disk hangs this waits; the node finds that out by its writes.
            space = await asyncio.to_thread(self._space, self._paths[index])
        except OSError as error:
            self._log.warning("free_space_unknown", log_dir=self._paths[index], error=str(error))
            return
        self.take(index, space)

    def take(self, index: int, space: VolumeSpace) -> None:
        """The space of a directory's volume now."""
        mark = self._mark.of(space.total_bytes)
        before = self._states[index]
        state = next_state(before, free_bytes=space.usable_bytes, mark_bytes=mark)
        self._states[index] = state
        if state is DiskState.OPEN:
            self._full.pop(index, None)
        else:
            self._full[index] = FullDirectory(
                f"the disk of this node is nearly full: {space.usable_bytes} bytes are free, and "
                f"storage.disk_free_min is {mark}",
                nothing_passes=state is DiskState.NOTHING,
            )
        if state is not before:
            tell = self._log.info if state is DiskState.OPEN else self._log.error
            tell(
                "disk_nearly_full" if state is not DiskState.OPEN else "disk_has_space_again",
                log_dir=self._paths[index],
                state=state.name,
                free_bytes=space.usable_bytes,
                mark_bytes=mark,
            )
        self._hold()
        self._find_refusing()

    def _find_refusing(self) -> None:
        """Also among replicas that have come since the last look, or have moved."""
        found: dict[TopicId, list[int]] = {}
        if self._full:
            for key, replica in list(self._replicas()):
                directory = self._full.get(replica.log_dir)
                if directory is None:
                    continue
                if directory.nothing_passes or not self._is_internal(key):
                    found.setdefault(key[0], []).append(key[1])
        refusing = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}
        if refusing != self.refusing:
            self.refusing = refusing
            self._tell()

    def _hold(self) -> None:
        """Also replicas that have come since the last look, or have moved to another directory."""
        if not self._holds and DiskState.NOTHING not in self._states.values():
            return
        self._holds = False
        for _, replica in list(self._replicas()):
            held = self._states.get(replica.log_dir) is DiskState.NOTHING
            self._holds = self._holds or held
            if replica.fetches_nothing is not held:
                replica.fetches_nothing = held
                if not held:
                    self._resume(replica)
