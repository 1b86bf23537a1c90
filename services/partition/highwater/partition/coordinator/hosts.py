"""The shards of one coordinator on this node: a host for each partition that it leads."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.time import Clock
from highwater.partition.coordinator.core.values import Moment, ResponseT
from highwater.partition.coordinator.kind import CoordinatorKind, ShardT
from highwater.partition.coordinator.log_port import CoordinatorLog
from highwater.partition.coordinator.records import RecordT
from highwater.partition.coordinator.shard_host import (
    HostParts,
    HostSettings,
    HostState,
    ShardHost,
)
from highwater.partition.coordinator.snapshot import SnapshotStore
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner


class ShardHosts(Generic[ShardT, RecordT, ResponseT]):
    """The hosts of one coordinator topic, from leadership to resignation; used on one loop."""

    def __init__(
        self,
        kind: CoordinatorKind[ShardT, RecordT, ResponseT],
        *,
        log: CoordinatorLog,
        snapshots: SnapshotStore,
        clock: Clock,
        logger: Logger,
        settings: HostSettings | None = None,
    ) -> None:
        """Start without partitions."""
        self.by_partition: dict[int, ShardHost[ShardT, RecordT, ResponseT]] = {}
        """The host of each partition that this node leads; read only."""
        self.replies = kind.replies
        self.clock = clock
        self.logger = logger
        self.event = kind.event
        self._name = kind.name
        self._tasks = TaskOwner(
            lambda name, error: logger.error(
                kind.event("task_failed"), task=name, error=repr(error)
            )
        )
        self._parts = HostParts(
            kind=kind,
            settings=settings or HostSettings(),
            log=log,
            snapshots=snapshots,
            clock=clock,
            logger=logger,
            tasks=self._tasks,
        )

    # -- roles --------------------------------------------------------------------------------

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load the partition and coordinate it; called on the loop.

        The log must already accept appends in this epoch. Older epochs are ignored.
        """
        present = self.by_partition.get(partition)
        if present is not None:
            if present.leader_epoch >= leader_epoch:
                return
            present.resign()
        self.by_partition[partition] = ShardHost(partition, leader_epoch, self._parts)

    def resign(self, partition: int) -> None:
        """Stop coordinating the partition; its parked calls get NOT_COORDINATOR."""
        host = self.by_partition.pop(partition, None)
        if host is not None:
            host.resign()

    async def stop(self, *, timeout_s: float = 10.0) -> None:
        """Clean stop: commit, write snapshots, answer every call. Takes at most `timeout_s`."""
        closing = [
            self._tasks.start(host.close(), name=f"{self._name}-close-{host.partition}")
            for host in self.by_partition.values()
        ]
        if closing:
            await asyncio.wait(closing, timeout=timeout_s)
        for partition in list(self.by_partition):
            self.resign(partition)
        await self._tasks.close(timeout_s=timeout_s)

    # -- all shards ---------------------------------------------------------------------------

    def shards(self) -> Iterator[ShardT]:
        """The shards that serve calls."""
        for host in self.by_partition.values():
            shard = host.shard
            if not isinstance(shard, ErrorCode):
                yield shard

    @property
    def loading(self) -> bool:
        """Whether a shard is being loaded."""
        return any(host.state is HostState.LOADING for host in self.by_partition.values())

    def for_each(self, name: str, decide: Callable[[ShardT, Moment], None]) -> None:
        """Let every shard that may write decide about `name`, which came with no call.

        Shards that are loading, or whose log refuses appends, are left out.
        """
        for host in list(self.by_partition.values()):
            self._decide(host, name, decide)

    def decide(
        self, partition: int, shard: ShardT, name: str, decide: Callable[[ShardT, Moment], None]
    ) -> bool:
        """Let one shard decide about `name`, which came with no call and which nobody waits for; False
        if it may not now.
        """
        return self.is_served(partition, shard) and self._decide(
            self.by_partition[partition], name, decide, at_leisure=True
        )

    def is_served(self, partition: int, shard: ShardT) -> bool:
        """Whether calls of the partition still go to this shard: to no later one, or none."""
        host = self.by_partition.get(partition)
        return host is not None and host.shard is shard

    def _decide(
        self,
        host: ShardHost[ShardT, RecordT, ResponseT],
        name: str,
        decide: Callable[[ShardT, Moment], None],
        *,
        at_leisure: bool = False,
    ) -> bool:
        shard = host.shard
        if isinstance(shard, ErrorCode) or host.refusal(writes=True) is not ErrorCode.NONE:
            return False
        try:
            now = host.moment()
            decide(shard, now)
            host.settle(now, at_leisure=at_leisure)
        except Exception as error:  # noqa: BLE001 - a bug costs the shard a reload, not the node.
            host.crash(name, error)
            return False
        return True

    # -- calls --------------------------------------------------------------------------------

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone: forget its parked call and answer nothing."""
        call.cancelled = True
        host = self.by_partition.get(call.partition)
        if host is not None:
            try:
                host.forget(call)
            except Exception as error:  # noqa: BLE001 - as in `for_each`.
                host.crash("cancel", error)
