"""What the consumer groups of a shard are asked and answer; handlers translate Kafka's messages."""

from dataclasses import dataclass

from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import TopicView
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.member import MemberMetadata
from highwater.partition.groups.key import GroupKey


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A ConsumerGroupHeartbeat request; None is what the member did not send: it has not changed."""

    key: GroupKey
    member_id: str
    epoch: int
    """0 joins, -1 leaves, -2 leaves for a while."""
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: MemberAssignment | None = None
    view: TopicView | None = None
    """Which topics the member may describe; None if every one."""
    makes_its_id: bool = True
    """ConsumerGroupHeartbeat v1+: the member makes its id itself (KIP-1082)."""

    @property
    def is_full(self) -> bool:
        """Whether the member sent all that it does not leave out when nothing has changed."""
        return (
            self.rebalance_timeout_ms is not None
            and (self.topic_names is not None or self.topic_regex is not None)
            and self.owned is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """The answer; without an assignment, what the member has stays its own."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: MemberAssignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    """One member in ConsumerGroupDescribe; assignments are (topic id, name, partitions)."""

    member_id: str
    epoch: int
    metadata: MemberMetadata
    assignment: tuple[tuple[bytes, str, tuple[int, ...]], ...]
    target: tuple[tuple[bytes, str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """One group in ConsumerGroupDescribe."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]
