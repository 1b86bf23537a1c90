"""The group coordinator of one node: passes calls to the shards of the partitions that it leads.

It serves one coordinator topic. `__consumer_offsets` has the default instance only; another object of
this class serves the topic that all other instances share, and that clients do not see.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NO_NODE, InstanceId
from highwater.model.time import Clock
from highwater.model.transactions import AwaitedMarker, TransactionMarker, TransactionVerifier
from highwater.partition.coordinator.calls import Handler, PartitionOf, ShardCalls, ShardOf
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.coordinator.hosts import ShardHosts
from highwater.partition.coordinator.instance_purge import InstancePurge
from highwater.partition.coordinator.log_port import CoordinatorLog
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.coordinator.snapshot import SnapshotStore
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer.topics import ImageTopics
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.state import GroupState
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
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
    txn_offset_commit,
)
from highwater.partition.groups.kind import group_kind
from highwater.partition.groups.offset_verification import OffsetVerification
from highwater.runtime.logging import Logger

_HANDLERS: Final[dict[int, Handler[GroupCoordinatorShard]]] = {
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.handle,
}
"""Of calls about one group."""

GroupRoom = Callable[[InstanceId, int], str]
"""(instance, its groups here) -> why it may have no further one in the cluster; empty if it may."""


def always_room(_instance: InstanceId, _count: int) -> str:
    """Of a node whose instances have no limits of groups."""
    return ""


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
        partition_of: PartitionOf,
        clock: Clock,
        logger: Logger,
        config: GroupConfig | None = None,
        node_id: Callable[[], int] = lambda: NO_NODE,
        settings: HostSettings | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        of_default_instance: bool = True,
        room: GroupRoom = always_room,
        verifier: TransactionVerifier,
    ) -> None:
        """`partition_of` finds the topic's partition for a group. For `of_default_instance` see
        `ShardCalls`. `room` is asked before a new group is made.
        """
        self._clock = clock
        self._log = log
        self._verification = OffsetVerification(log, verifier)
        config = config or GroupConfig()
        self._topics = ImageTopics()
        self._configs = ImageGroupConfigs(config.consumer_bounds, node_id)
        assignors = {name: ASSIGNORS[name] for name in config.consumer_assignors}
        self._hosts = ShardHosts(
            group_kind(
                config,
                new_id,
                self._topics,
                assignors,
                self._configs.of,
                lambda shard: self.purge.activated(shard),  # noqa: PLW0108 - made below.
                lambda instance: room(instance, self.count(instance)),
            ),
            log=log,
            snapshots=snapshots,
            clock=clock,
            logger=logger,
            settings=settings,
        )
        self.purge = InstancePurge(
            self._hosts,
            forgetting_of=lambda shard: shard.forgetting,
            call_later=lambda pause_s, turn: asyncio.get_running_loop().call_later(pause_s, turn),
        )
        """Of instances; it is told of them if others than the default one are served."""
        self._calls = ShardCalls(
            self._hosts,
            partition_of=partition_of,
            of_default_instance=of_default_instance,
            admits_instance=self.purge.admits,
        )

    # -- roles --------------------------------------------------------------------------------

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """See `ShardHosts.become_leader`."""
        self._hosts.become_leader(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """See `ShardHosts.resign`."""
        self._hosts.resign(partition)

    async def stop(self, *, timeout_s: float = 10.0) -> None:
        """See `ShardHosts.stop`."""
        await self._hosts.stop(timeout_s=timeout_s)

    # -- CoordinatorPort ----------------------------------------------------------------------

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        calls = self._calls
        if not calls.admits(call):
            return
        key = call.api_key
        if key == _HEARTBEAT:
            calls.at_once(call, heartbeat.handle)
        elif key in _HANDLERS:
            calls.one_key(call, _HANDLERS[key])
        elif key == ApiKey.TXN_OFFSET_COMMIT:
            self._submit_in_transaction(call)
        elif key == ApiKey.LIST_GROUPS:
            calls.all_shards(call, self._list_groups)
        else:
            calls.many_keys(call, self._many_groups, writes=key == ApiKey.DELETE_GROUPS)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone: forget its parked call and answer nothing."""
        self._hosts.cancel(call)

    def _submit_in_transaction(self, call: CoordinatorCall) -> None:
        """Verifies the transaction before the call is handled, where it is not open already."""
        host = self._hosts.by_partition.get(call.partition)
        if host is not None and not isinstance(host.shard, ErrorCode):
            try:
                body = txn_offset_commit.decode(call)
            except DecodeError:
                body = None  # Answered as for any other call.
            if body is not None and self._verification.asks(
                call, body, partial(self._verified, call)
            ):
                return
        self._calls.one_key(call, self._commit_in_transaction)

    def _verified(self, call: CoordinatorCall, error_code: int) -> None:
        if call.cancelled or not self._calls.admits(call):
            return  # Answered, if its instance was purged meanwhile.
        if error_code:
            self._calls.one_key(call, partial(_refuse_in_transaction, error_code))
        else:
            self._calls.one_key(call, self._commit_in_transaction)

    def _commit_in_transaction(
        self, shard: GroupCoordinatorShard, call: CoordinatorCall, now: Moment
    ) -> bytes:
        """A batch that the log refused would cost the shard a reload: ask the log before."""
        body = txn_offset_commit.decode(call)
        refused = self._log.refuse_producer(call.partition, body.producer_id, body.producer_epoch)
        if refused:
            return txn_offset_commit.refuse(body, call.api_version, refused)
        return txn_offset_commit.handle(shard, call, body, now)

    def _list_groups(self, shards: Iterator[GroupCoordinatorShard], call: CoordinatorCall) -> bytes:
        return list_groups.handle(shards, call, loading=self._hosts.loading)

    def _many_groups(
        self, call: CoordinatorCall, shard_of: ShardOf[GroupCoordinatorShard]
    ) -> bytes | ErrorCode:
        """Calls that name several groups."""
        match call.api_key:
            case ApiKey.OFFSET_FETCH:
                return offset_fetch.handle(shard_of, call)
            case ApiKey.DESCRIBE_GROUPS:
                return describe_groups.handle(shard_of, call)
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                return consumer_group_describe.handle(shard_of, call)
            case ApiKey.DELETE_GROUPS:
                now = Moment(self._clock.monotonic_ms(), self._clock.wall_ms())
                return delete_groups.handle(shard_of, call, now)
            case _:
                return ErrorCode.INVALID_REQUEST

    # -- MarkerTarget -------------------------------------------------------------------------

    def write_markers(
        self, partition: int, leader_epoch: int, markers: Sequence[AwaitedMarker]
    ) -> None:
        """See `MarkerTarget`. Markers go the way of the records, through the commit queue: the
        pending offsets count, or are dropped, at the marker's place in the log.
        """
        for marker, done in markers:
            self._write_marker(partition, leader_epoch, marker, done)

    def _write_marker(
        self,
        partition: int,
        leader_epoch: int,
        marker: TransactionMarker,
        done: Callable[[int], None],
    ) -> None:
        host = self._hosts.by_partition.get(partition)
        if host is None or host.leader_epoch != leader_epoch:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        shard = host.shard
        refused = shard if isinstance(shard, ErrorCode) else host.refusal(writes=True)
        if isinstance(shard, ErrorCode) or refused is not ErrorCode.NONE:
            done(_marker_error(refused))
            return
        code = self._log.refuse_marker(partition, marker)
        if code:
            done(code)
            return
        self._verification.marker_decided(partition, marker)
        try:
            shard.end_transaction(marker, host.moment())
            host.settle()
        except Exception as error:  # noqa: BLE001 - a bug costs the shard a reload, not the node.
            host.crash("a transaction marker", error)
            self._verification.marker_done(partition, marker)
            done(ErrorCode.UNKNOWN_SERVER_ERROR)
            return

        def ended(error: int) -> None:
            if error and host.shard is shard:
                # Too late for an answer, but the marker still waits for the log: whatever comes
                # now is behind it.
                host.after_commit(ended)
            else:
                self._verification.marker_done(partition, marker)

        host.after_commit(ended)
        host.after_commit(lambda error: done(_marker_error(error)))

    # -- for the rest of the node -------------------------------------------------------------

    def follow(self, image: ClusterImage) -> None:
        """Takes a newer image; consumer groups whose topics changed begin a new epoch soon."""
        self._configs.follow(image)
        if self._topics.follow(image):
            self._hosts.for_each("topics_changed", lambda shard, now: shard.topics_changed(now))

    def topics_deleted(self, instance: InstanceId, topics: frozenset[str]) -> None:
        """Drop the instance's committed offsets of topics that no longer exist.

        As in Kafka, a shard that is loading keeps the offsets until they expire.
        """
        self._hosts.for_each(
            "topics_deleted", lambda shard, now: shard.topics_deleted(instance, topics, now)
        )

    def committed_offsets(self) -> Iterator[tuple[GroupKey, str, int, int]]:
        """(group, topic, partition, offset) of every committed offset here, for consumer lag."""
        for shard in self._hosts.shards():
            for key, offsets in shard.durable.offsets.items():
                for (topic, partition), value in offsets.items():
                    yield key, topic, partition, value.offset

    def count(self, instance: InstanceId) -> int:
        """How many groups of the instance are coordinated here. O(shards)."""
        return sum(shard.count(instance) for shard in self._hosts.shards())

    @property
    def shards_active(self) -> int:
        """Partitions whose groups are loaded."""
        return sum(1 for _ in self._hosts.shards())

    def stats(self) -> GroupStats:
        """Counts for metrics; takes time proportional to the number of groups."""
        groups = dict.fromkeys(GroupState, 0)
        members = offsets = parked = active = 0
        for shard in self._hosts.shards():
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
            shards_loading=len(self._hosts.by_partition) - active,
        )


def _refuse_in_transaction(
    error_code: int, _shard: GroupCoordinatorShard, call: CoordinatorCall, _now: Moment
) -> bytes:
    return txn_offset_commit.refuse(txn_offset_commit.decode(call), call.api_version, error_code)


def _marker_error(error: int) -> int:
    """A code of the coordinator as the code of a partition, which whoever sends markers knows
    (`KafkaApis.handleWriteTxnMarkersRequest`); both end in another attempt.
    """
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error == ErrorCode.NOT_COORDINATOR else error
