"""The consumer groups of a shard, as its facade uses them; `consumer_core.shard` implements it."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.requests import (
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
)
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    SyncRequest,
)


class ConsumerPort(Protocol):
    """Lives as long as the shard, whose state it was made with."""

    def activate(self, now: Moment) -> None:
        """Begin to serve, after the last record."""
        ...

    def topics_changed(self, now: Moment) -> None:
        """Topics came, went, grew, or have other racks."""
        ...

    def heartbeat(self, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """ConsumerGroupHeartbeat."""
        ...

    def topic_id(self, instance: InstanceId, name: str) -> TopicId | None:
        """The id of the instance's topic of that name, or None."""
        ...

    def list_groups(
        self, instance: InstanceId, states: Iterable[str], types: Iterable[str]
    ) -> Iterator[ListedGroup]:
        """The instance's groups in these states, if their type is among these; empty means all."""
        ...

    def describe(self, key: GroupKey) -> DescribedConsumerGroup | None:
        """The group, or None."""
        ...

    def takes_join(self, request: JoinRequest, now: Moment) -> ConsumerGroup | None:
        """The group that a JoinGroup is for; None if it is for a classic group."""
        ...

    def join_group(
        self, group: ConsumerGroup, request: JoinRequest, token: object, now: Moment
    ) -> None:
        """JoinGroup of a member of the classic protocol."""
        ...

    def sync_group(
        self, group: ConsumerGroup, request: SyncRequest, token: object, now: Moment
    ) -> None:
        """SyncGroup of such a member."""
        ...

    def classic_heartbeat(
        self,
        key: GroupKey,
        group: ConsumerGroup,
        generation: int,
        member_id: str,
        instance_id: str | None,
        now: Moment,
    ) -> ErrorCode:
        """Heartbeat of such a member; it writes nothing."""
        ...

    def forget(self, key: GroupKey) -> None:
        """Delete the group's records and its members, not its offsets."""
        ...

    def leave_group(
        self, key: GroupKey, group: ConsumerGroup, leaving: tuple[LeavingMember, ...], now: Moment
    ) -> list[ErrorCode]:
        """LeaveGroup; one error per member."""
        ...
