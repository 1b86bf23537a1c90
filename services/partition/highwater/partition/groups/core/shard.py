"""The coordinator of one partition of a topic of groups, as pure state.

Lifecycle: `replay` every committed record, `activate` once, then call the handlers. After each
handler and each `expire` the owner takes `take_records` (to append, in order) and `take_replies`.
If an append fails, the owner discards the shard and loads it anew.
"""

from collections.abc import Callable, Iterator
from functools import partial

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.forgetting import Forgetting
from highwater.partition.coordinator.core.values import Moment, Producer, Reply
from highwater.partition.groups.consumer.requests import (
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
)
from highwater.partition.groups.core import (
    admin,
    consumer_offsets,
    joining,
    membership,
    offsets,
    purging,
    rebalance,
    restoring,
    syncing,
    transactional,
)
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.consumer_port import ConsumerPort
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    DurableState,
    Record,
)
from highwater.partition.groups.core.group import ClassicGroup
from highwater.partition.groups.core.group_limit import GroupLimit, no_limit
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.shares import SharedCounts
from highwater.partition.groups.core.values import (
    CommitRequest,
    DescribedGroup,
    GroupKey,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    Response,
    SyncRequest,
)

_SLICE_PAUSE_MS = 10
"""Pause between two slices of a retention check, so that calls are handled meanwhile."""


class GroupCoordinatorShard:
    """Groups and offsets of one partition; every method returns at once."""

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        new_consumer: Callable[[ShardState], ConsumerPort],
        limit: GroupLimit = no_limit,
    ) -> None:
        """`new_id` returns another unique string at each call, for member ids (Kafka: UUIDs).

        `new_consumer` makes what handles consumer groups. `limit` knows the instances' limits.
        """
        self._state = ShardState(config, new_id, limit)
        self._consumer_groups = self._state.durable.consumer_groups
        self._consumer = new_consumer(self._state)
        self.forgetting: Forgetting[GroupKey] = Forgetting(
            keys=lambda: (*self._state.groups, *self._consumer_groups),
            forget=partial(purging.forget_group, self._state, self._consumer),
            written=lambda: len(self._state.records),
        )
        """The groups of purged instances. No group is without a key in here: see `invariants`."""
        self._expiry: Iterator[GroupKey] | None = None
        self._expiry_timer = self._state.new_timer(self._expire_offsets)
        self._active = False

    # -- loading ------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply a committed record while loading."""
        assert not self._active
        self._state.durable.replay(record)

    def activate(self, now: Moment) -> None:
        """Build the groups from the replayed records and start their members' sessions."""
        assert not self._active
        self._active = True
        state = self._state
        for key, image in state.durable.images.items():
            restoring.restore_group(state, key, image, now)
        for key in (*state.durable.offsets, *state.durable.pending.groups()):
            if key not in state.groups and key not in self._consumer_groups:
                rebalance.create_group(state, key, now.wall_ms)
        for group in list(state.groups.values()):
            if len(group.members) > state.config.group_size_max:
                # The limit was lowered; in a rebalance members commit before some are removed.
                rebalance.prepare_rebalance(state, group, now)
        check_ms = state.config.offsets_retention_check_ms
        state.timers.set(self._expiry_timer, now.now_ms + check_ms)
        self._consumer.activate(now)

    # -- handlers -----------------------------------------------------------------------------

    def join_group(self, request: JoinRequest, token: object, now: Moment) -> None:
        """Join; the reply comes through `take_replies`, now or later."""
        group = self._consumer.takes_join(request, now)
        if group is not None:
            self._consumer.join_group(group, request, token, now)
            return
        joining.join_group(self._state, request, token, now)

    def sync_group(self, request: SyncRequest, token: object, now: Moment) -> None:
        """Sync; the reply comes through `take_replies`, now or later."""
        group = self._consumer_groups.get(request.key)
        if group is not None:
            self._consumer.sync_group(group, request, token, now)
            return
        syncing.sync_group(self._state, request, token, now)

    def heartbeat(
        self,
        key: GroupKey,
        generation: int,
        member_id: str,
        instance_id: str | None,
        now: Moment,
    ) -> ErrorCode:
        """Heartbeat of the classic protocol; it writes nothing."""
        group = self._consumer_groups.get(key)
        if group is not None:
            return self._consumer.classic_heartbeat(
                key, group, generation, member_id, instance_id, now
            )
        return membership.heartbeat(
            self._state, key, generation, member_id, instance_id, now.now_ms
        )

    def consumer_heartbeat(self, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """Heartbeat of the consumer protocol (KIP-848)."""
        return self._consumer.heartbeat(request, now)

    def forget_call(self, token: object, now: Moment) -> None:
        """Forget a parked call whose client has disconnected."""
        membership.forget_call(self._state, token, now)

    def leave_group(
        self, key: GroupKey, leaving: tuple[LeavingMember, ...], now: Moment
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Remove members; return the call's error and one error per member."""
        group = self._consumer_groups.get(key)
        if group is not None:
            errors = self._consumer.leave_group(key, group, leaving, now)
            return ErrorCode.NONE, errors
        return membership.leave_group(self._state, key, leaving, now)

    def commit_offsets(self, request: CommitRequest, now: Moment) -> list[ErrorCode]:
        """Commit offsets; return one error per entry of the request."""
        return offsets.commit_offsets(self._state, request, self._consumer.topic_id, now)

    def commit_pending(
        self, request: CommitRequest, producer: Producer, now: Moment
    ) -> list[ErrorCode]:
        """Commit offsets in the producer's transaction; return one error per entry."""
        topic_ids = self._consumer.topic_id
        return transactional.commit_pending(self._state, request, producer, topic_ids, now)

    def end_transaction(self, marker: TransactionMarker, now: Moment) -> None:
        """A producer's transaction has ended."""
        transactional.end_transaction(self._state, marker, now)

    def is_unstable(self, key: GroupKey, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the committed offset."""
        return self._state.durable.pending.is_unstable(key, (topic, partition))

    def validate_fetch(self, key: GroupKey, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a client that names this member and epoch may fetch the group's offsets."""
        group = self._consumer_groups.get(key)
        if group is None:
            return ErrorCode.NONE
        return consumer_offsets.validate_fetch(group, member_id, epoch)

    def committed_offset(self, key: GroupKey, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of one partition, or None."""
        return offsets.committed_offset(self._state, key, topic, partition)

    def committed_by_topic(self, key: GroupKey) -> dict[str, list[tuple[int, CommittedOffset]]]:
        """All committed offsets of a group: topic -> [(partition, offset)]."""
        return offsets.committed_by_topic(self._state, key)

    def delete_offsets(
        self, key: GroupKey, slots: list[tuple[str, int]], now: Moment
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Delete offsets; return the call's error and one error per (topic, partition)."""
        return offsets.delete_offsets(self._state, key, slots, now)

    def list_groups(
        self, instance: InstanceId, states: list[str], types: list[str]
    ) -> Iterator[ListedGroup]:
        """The instance's groups in these states and of these types; empty lists mean all."""
        yield from admin.list_groups(self._state, instance, states, types)
        yield from self._consumer.list_groups(instance, states, types)

    def describe_group(self, key: GroupKey) -> DescribedGroup | None:
        """The classic group, or None."""
        return admin.describe_group(self._state, key)

    def describe_consumer_group(self, key: GroupKey) -> DescribedConsumerGroup | None:
        """The consumer group, or None."""
        return self._consumer.describe(key)

    def delete_group(self, key: GroupKey, now: Moment) -> ErrorCode:
        """Delete an empty group with its offsets."""
        return admin.delete_group(self._state, key, now)

    def topics_deleted(self, instance: InstanceId, topics: frozenset[str], now: Moment) -> None:
        """Delete the instance's committed offsets of these topics."""
        durable = self._state.durable
        keys = dict.fromkeys([*durable.offsets, *durable.pending.groups()])
        for key in [key for key in keys if key.instance == instance]:
            offsets.delete_topics(self._state, key, topics, now)

    def topics_changed(self, now: Moment) -> None:
        """Topics that groups may read came, went, grew, or have other racks."""
        self._consumer.topics_changed(now)

    # -- time ---------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When the owner must call `expire` next, on the monotonic clock."""
        return self._state.timers.next_deadline_ms()

    def expire(self, now: Moment) -> None:
        """Run every timer that is due."""
        self._state.timers.expire(now)

    def _expire_offsets(self, now: Moment) -> None:
        """Do one slice of the retention check."""
        state = self._state
        if self._expiry is None:
            self._expiry = iter([*state.groups, *self._consumer_groups])
        for _ in range(state.config.expiry_groups_per_slice):
            key = next(self._expiry, None)
            if key is None:
                self._expiry = None
                check_ms = state.config.offsets_retention_check_ms
                state.timers.set(self._expiry_timer, now.now_ms + check_ms)
                return
            group = state.groups.get(key)
            consumer = self._consumer_groups.get(key)
            if group is not None:
                offsets.expire_offsets(state, group, now)
            elif consumer is not None:
                consumer_offsets.expire(state, key, consumer, now)
        state.timers.set(self._expiry_timer, now.now_ms + _SLICE_PAUSE_MS)

    # -- for the owner ------------------------------------------------------------------------

    def take_records(self) -> list[Record]:
        """Take the records since the last call, already replayed, to append in this order."""
        records, self._state.records = self._state.records, []
        return records

    def take_replies(self) -> list[Reply[Response]]:
        """Take the answers to parked calls since the last call."""
        replies, self._state.replies = self._state.replies, []
        return replies

    def is_parked(self, token: object) -> bool:
        """Whether this call still waits for its answer."""
        return token in self._state.parked

    def parked_tokens(self) -> list[object]:
        """Tokens of all parked calls, for when the shard is discarded."""
        return list(self._state.parked)

    def capture(self) -> DurableState:
        """Copy the durable state, so that later records do not change the copy."""
        return self._state.durable.capture()

    # -- views --------------------------------------------------------------------------------

    @property
    def durable(self) -> DurableState:
        """The state that the records of the log describe; read only."""
        return self._state.durable

    @property
    def groups(self) -> dict[GroupKey, ClassicGroup]:
        """The groups in memory; read only."""
        return self._state.groups

    def count(self, instance: InstanceId) -> int:
        """How many groups the instance has here."""
        return self._state.count(instance)

    @property
    def metadata_bytes(self) -> int:
        """About the memory that what the members of all groups sent takes."""
        return self._state.metadata_counts.total

    @property
    def member_counts(self) -> SharedCounts:
        """See `ShardState`; read only."""
        return self._state.member_counts

    @property
    def metadata_counts(self) -> SharedCounts:
        """See `ShardState`; read only."""
        return self._state.metadata_counts
