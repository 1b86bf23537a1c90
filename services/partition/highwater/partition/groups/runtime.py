"""The group coordinator of one node: passes calls to the shards of the partitions that it leads.

It serves one coordinator topic. `__consumer_offsets` holds the default instance only; another
object of this class serves the internal topic of the other instances, which clients do not see.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.hop.coordinator import BODY_BYTES_MAX, CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError, UnsupportedVersionError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.partitioning import coordinator_partition
from highwater.model.time import Clock
from highwater.partition.groups.append_errors import for_api
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.state import GroupState
from highwater.partition.groups.core.values import GroupKey, Moment, SyncResponse
from highwater.partition.groups.handlers import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from highwater.partition.groups.log_port import CoordinatorLog
from highwater.partition.groups.shard_host import (
    HostParts,
    HostSettings,
    HostState,
    ShardHost,
    deliver,
)
from highwater.partition.groups.snapshot import SnapshotStore
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

Handler = Callable[[GroupCoordinatorShard, CoordinatorCall, Moment], bytes | None]
"""Handles a call about one group; None when the answer comes later."""

_HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
}

_HEARTBEAT: Final = int(ApiKey.HEARTBEAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStats:
    """Counts over all shards of the node, for its metrics."""

    groups: dict[GroupState, int]
    members: int
    offsets: int
    parked: int
    shards_active: int
    shards_loading: int


class GroupCoordinator:
    """Implements `CoordinatorPort` for the group APIs; used on one event loop."""

    def __init__(
        self,
        *,
        log: CoordinatorLog,
        snapshots: SnapshotStore,
        partitions: int,
        clock: Clock,
        logger: Logger,
        config: GroupConfig | None = None,
        settings: HostSettings | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        default_instance_only: bool = True,
    ) -> None:
        """`partitions` is the topic's partition count, which never changes."""
        self._partitions = partitions
        self._default_instance_only = default_instance_only
        self._clock = clock
        self._hosts: dict[int, ShardHost] = {}
        self._tasks = TaskOwner(
            lambda name, error: logger.error("group_task_failed", task=name, error=repr(error))
        )
        self._parts = HostParts(
            config=config or GroupConfig(),
            settings=settings or HostSettings(),
            log=log,
            snapshots=snapshots,
            clock=clock,
            new_id=new_id,
            logger=logger,
            tasks=self._tasks,
        )

    # -- roles --------------------------------------------------------------------------------

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load the partition and coordinate its groups; called on the loop.

        The log must already accept appends in this epoch. Older epochs are ignored.
        """
        present = self._hosts.get(partition)
        if present is not None:
            if present.leader_epoch >= leader_epoch:
                return
            present.resign()
        self._hosts[partition] = ShardHost(partition, leader_epoch, self._parts)

    def resign(self, partition: int) -> None:
        """Stop coordinating the partition; its parked calls get NOT_COORDINATOR."""
        host = self._hosts.pop(partition, None)
        if host is not None:
            host.resign()

    async def stop(self, *, timeout_s: float = 10.0) -> None:
        """Clean stop: commit, write snapshots, answer every call. Takes at most `timeout_s`."""
        closing = [
            self._tasks.start(host.close(), name=f"group-close-{host.partition}")
            for host in self._hosts.values()
        ]
        if closing:
            await asyncio.wait(closing, timeout=timeout_s)
        for partition in list(self._hosts):
            self.resign(partition)
        await self._tasks.close(timeout_s=timeout_s)

    # -- CoordinatorPort ----------------------------------------------------------------------

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        if self._default_instance_only and call.instance != DEFAULT_INSTANCE:
            deliver(call, b"", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif len(call.body) > BODY_BYTES_MAX:
            deliver(call, b"", ErrorCode.INVALID_REQUEST)
        elif call.api_key == _HEARTBEAT:
            self._guard(call, self._heartbeat)
        elif call.api_key in _HANDLERS:
            self._guard(call, self._one_group)
        else:
            self._guard(call, self._many_groups)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone: forget its parked call and answer nothing."""
        call.cancelled = True
        host = self._hosts.get(call.partition)
        if host is not None:
            try:
                host.forget(call)
            except Exception as error:  # noqa: BLE001 - as in `_one_group`.
                host.crash("cancel", error)

    def _guard(self, call: CoordinatorCall, handle: Callable[[CoordinatorCall], None]) -> None:
        """Answer bytes that do not decode with an error; they change nothing."""
        try:
            handle(call)
        except UnsupportedVersionError:
            deliver(call, b"", ErrorCode.UNSUPPORTED_VERSION)
        except DecodeError:
            deliver(call, b"", ErrorCode.INVALID_REQUEST)

    def _heartbeat(self, call: CoordinatorCall) -> None:
        host = self._hosts.get(call.partition)
        shard = ErrorCode.NOT_COORDINATOR if host is None else host.shard
        if isinstance(shard, ErrorCode):
            self._refuse(call, shard)
        else:
            body = heartbeat.handle(shard, call, Moment(self._clock.monotonic_ms(), 0))
            deliver(call, body, 0)

    def _one_group(self, call: CoordinatorCall) -> None:
        host = self._hosts.get(call.partition)
        if host is None:
            self._refuse(call, ErrorCode.NOT_COORDINATOR)
            return
        shard = host.shard
        if isinstance(shard, ErrorCode):
            self._refuse(call, shard)
            return
        refused = host.refusal(writes=True)
        if refused is not ErrorCode.NONE:
            deliver(call, b"", refused)
            return
        try:
            body = _HANDLERS[call.api_key](shard, call, host.moment())
            host.settle()
        except DecodeError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug costs the shard a reload, not the node.
            host.crash(f"api {call.api_key}", error)
            deliver(call, b"", ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if body is None:
            host.park(call)
        else:
            host.after_commit(partial(deliver, call, body))

    def _many_groups(self, call: CoordinatorCall) -> None:
        """Calls that name several groups, or none."""
        touched: dict[ShardHost, None] = {}

        def shard_of(group_id: str) -> GroupCoordinatorShard | ErrorCode:
            partition = call.partition
            if partition < 0:
                partition = coordinator_partition(group_id, self._partitions)
            host = self._hosts.get(partition)
            if host is None:
                return ErrorCode.NOT_COORDINATOR
            refused = host.refusal(writes=call.api_key == ApiKey.DELETE_GROUPS)
            if refused is not ErrorCode.NONE:
                return ErrorCode(for_api(call.api_key, refused))
            shard = host.shard
            if not isinstance(shard, ErrorCode):
                touched[host] = None
            return shard

        if call.partition >= 0 and call.api_key != ApiKey.LIST_GROUPS:
            shard = shard_of("")
            if isinstance(shard, ErrorCode):
                self._refuse(call, shard)
                return
        try:
            body = self._handle_many(call, shard_of)
            for host in touched:
                host.settle()
        except DecodeError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `_one_group`.
            for host in touched:
                host.crash(f"api {call.api_key}", error)
            deliver(call, b"", ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if isinstance(body, ErrorCode):
            self._refuse(call, body)
        else:
            _AfterAll(call, body, list(touched)).wait()

    def _handle_many(
        self,
        call: CoordinatorCall,
        shard_of: Callable[[str], GroupCoordinatorShard | ErrorCode],
    ) -> bytes | ErrorCode:
        match call.api_key:
            case ApiKey.OFFSET_FETCH:
                return offset_fetch.handle(shard_of, call)
            case ApiKey.DESCRIBE_GROUPS:
                return describe_groups.handle(shard_of, call)
            case ApiKey.DELETE_GROUPS:
                now = Moment(self._clock.monotonic_ms(), self._clock.wall_ms())
                return delete_groups.handle(shard_of, call, now)
            case ApiKey.LIST_GROUPS:
                return list_groups.handle(self._shards(), call, loading=self._loading())
            case _:
                return ErrorCode.INVALID_REQUEST

    def _refuse(self, call: CoordinatorCall, error: ErrorCode) -> None:
        """Answer a call that no shard can take now.

        While loading, as in Kafka, heartbeats succeed and SyncGroup sends members back to
        JoinGroup, so that they need not look for the coordinator again.
        """
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            if call.api_key == _HEARTBEAT:
                deliver(call, heartbeat.encode(ErrorCode.NONE, call.api_version), 0)
                return
            if call.api_key == ApiKey.SYNC_GROUP:
                response = SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS)
                deliver(call, sync_group.encode(response, call.api_version), 0)
                return
        deliver(call, b"", error)

    # -- for the rest of the node -------------------------------------------------------------

    def topics_deleted(self, instance: InstanceId, topics: frozenset[str]) -> None:
        """Drop the instance's committed offsets of topics that no longer exist."""
        for host in list(self._hosts.values()):
            shard = host.shard
            if isinstance(shard, ErrorCode) or host.refusal(writes=True) is not ErrorCode.NONE:
                # As in Kafka, a shard that is loading keeps the offsets until they expire.
                continue
            try:
                shard.topics_deleted(instance, topics, host.moment())
                host.settle()
            except Exception as error:  # noqa: BLE001 - as in `_one_group`.
                host.crash("topics_deleted", error)

    def committed_offsets(self) -> Iterator[tuple[GroupKey, str, int, int]]:
        """(group, topic, partition, offset) of every committed offset here, for consumer lag."""
        for shard in self._shards():
            for key, offsets in shard.durable.offsets.items():
                for (topic, partition), value in offsets.items():
                    yield key, topic, partition, value.offset

    def stats(self) -> GroupStats:
        """Counts for metrics; takes time proportional to the number of groups."""
        groups = dict.fromkeys(GroupState, 0)
        members = offsets = parked = active = 0
        for shard in self._shards():
            active += 1
            offsets += shard.durable.offset_count
            parked += len(shard.parked_tokens())
            for group in shard.groups.values():
                groups[group.state] += 1
                members += len(group.members)
        return GroupStats(
            groups=groups,
            members=members,
            offsets=offsets,
            parked=parked,
            shards_active=active,
            shards_loading=len(self._hosts) - active,
        )

    def _shards(self) -> Iterator[GroupCoordinatorShard]:
        for host in self._hosts.values():
            shard = host.shard
            if not isinstance(shard, ErrorCode):
                yield shard

    def _loading(self) -> bool:
        return any(host.state is HostState.LOADING for host in self._hosts.values())


class _AfterAll:
    """Answers a call once every shard that it touched has committed."""

    __slots__ = ("_body", "_call", "_hosts", "_left")

    def __init__(self, call: CoordinatorCall, body: bytes, hosts: list[ShardHost]) -> None:
        self._call = call
        self._body = body
        self._hosts = hosts
        self._left = len(hosts)

    def wait(self) -> None:
        if not self._hosts:
            deliver(self._call, self._body, 0)
        for host in self._hosts:
            host.after_commit(self._one)

    def _one(self, error: int) -> None:
        self._left -= 1
        if error:
            deliver(self._call, b"", error)
        elif self._left == 0:
            deliver(self._call, self._body, 0)
