"""The consumer groups of one shard, as `core.shard` asks them."""

from collections.abc import Iterable, Iterator, Mapping

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.types import Assignor
from highwater.partition.groups.consumer.durable import tombstones_of
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.group_configs import ConfigOf
from highwater.partition.groups.consumer.requests import (
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
)
from highwater.partition.groups.consumer.topics import Topics
from highwater.partition.groups.consumer_core import (
    assigning,
    classic_members,
    describing,
    fencing,
    heartbeat,
    refresh,
)
from highwater.partition.groups.consumer_core.state import ConsumerState, Refusal
from highwater.partition.groups.core import consumer_offsets, rebalance
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    ListedGroup,
    SyncRequest,
    SyncResponse,
)


class ConsumerShard:
    """Handlers of consumer groups; where they raise Refusal, this answers with its code."""

    def __init__(
        self,
        shard: ShardState,
        topics: Topics,
        assignors: Mapping[str, Assignor],
        config_of: ConfigOf,
    ) -> None:
        """See `ConsumerState`."""
        self.state = ConsumerState(shard, topics, assignors, config_of)
        self.groups = self.state.groups

    def activate(self, now: Moment) -> None:
        """Start the sessions of the members that were loaded, and compare groups with topics."""
        self.state.count_loaded()
        for key, group in self.groups.items():
            for member in group.members.values():
                fencing.restart_session(self.state, key, member, now)
                if member.metadata.classic is None:
                    assigning.watch_revocation(self.state, key, member, now)
        refresh.topics_changed(self.state, now)

    def topic_id(self, instance: InstanceId, name: str) -> TopicId | None:
        """See `ConsumerPort`."""
        topic = self.state.topics.by_name(instance, name)
        return None if topic is None else topic.topic_id

    def topics_changed(self, now: Moment) -> None:
        """Topics came, went, grew, or have other racks."""
        refresh.topics_changed(self.state, now)

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """ConsumerGroupHeartbeat."""
        try:
            return heartbeat.heartbeat(self.state, request, now)
        except Refusal as refusal:
            return HeartbeatResponse(error=refusal.code, message=refusal.message)

    def list_groups(
        self, instance: InstanceId, states: Iterable[str], types: Iterable[str]
    ) -> Iterator[ListedGroup]:
        """ListGroups."""
        return describing.list_groups(self.state, instance, states, types)

    def describe(self, key: GroupKey) -> DescribedConsumerGroup | None:
        """ConsumerGroupDescribe."""
        return describing.describe(self.state, key)

    # -- members of the classic protocol ------------------------------------------------------

    def takes_join(self, request: JoinRequest, now: Moment) -> ConsumerGroup | None:
        """The consumer group that a JoinGroup is for; None if it is for a classic group.

        An empty consumer group gives way to a new classic one, which has its offsets even if the
        request is refused then.
        """
        key, shard = request.key, self.state.shard
        group = self.groups.get(key)
        if group is None or group.members:
            return group
        if not request.member_id:
            consumer_offsets.delete(shard, key, group)
            if key in shard.durable.offsets or key in shard.durable.pending:
                rebalance.create_group(shard, key, now.wall_ms)
        return None

    def join_group(
        self, group: ConsumerGroup, request: JoinRequest, token: object, now: Moment
    ) -> None:
        """JoinGroup; the reply waits for the commit."""
        try:
            response = classic_members.join_group(self.state, group, request, now)
        except Refusal as refusal:
            response = JoinResponse(error=refusal.code, member_id=request.member_id)
        self.state.shard.reply(token, response, after_commit=True)

    def sync_group(
        self, group: ConsumerGroup, request: SyncRequest, token: object, now: Moment
    ) -> None:
        """SyncGroup; the reply waits for the commit."""
        try:
            response = classic_members.sync_group(self.state, group, request, now)
        except Refusal as refusal:
            response = SyncResponse(error=refusal.code)
        self.state.shard.reply(token, response, after_commit=True)

    def classic_heartbeat(
        self,
        key: GroupKey,
        group: ConsumerGroup,
        generation: int,
        member_id: str,
        instance_id: str | None,
        now: Moment,
    ) -> ErrorCode:
        """Heartbeat of a member of the classic protocol; it writes nothing."""
        try:
            return classic_members.heartbeat(
                self.state, key, group, generation, member_id, instance_id, now
            )
        except Refusal as refusal:
            return refusal.code

    def forget(self, key: GroupKey) -> None:
        """See `ConsumerPort`. A look-up of its expressions comes to its end, and finds no group."""
        group = self.groups[key].copy()
        for record in tombstones_of(key, group):
            self.state.apply(record)
        for member_id in group.members:
            self.state.timers.forget(key, member_id)

    def leave_group(
        self, key: GroupKey, group: ConsumerGroup, leaving: tuple[LeavingMember, ...], now: Moment
    ) -> list[ErrorCode]:
        """LeaveGroup; one error per member."""
        return classic_members.leave_group(self.state, key, group, leaving, now)
