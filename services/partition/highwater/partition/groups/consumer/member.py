"""A member of a consumer group (KIP-848), as values that its records hold.

Kafka: `ConsumerGroupMember`, `MemberState`.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.assignment import NOTHING, pairs_of
from highwater.partition.groups.consumer.assignors.types import MemberAssignment

JOIN_EPOCH: Final = 0
"""The epoch that a member names to join, or to join again."""
LEAVE_EPOCH: Final = -1
"""The epoch that a member names to leave."""
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch that a static member names, and then has, while it is gone for a while (KIP-345)."""


class MemberState(enum.IntEnum):
    """How far a member is on the way from what it holds to its target assignment.

    STABLE -> UNREVOKED_PARTITIONS: the target takes partitions that it holds.
    STABLE -> UNRELEASED_PARTITIONS: the target gives partitions that others still hold.
    UNREVOKED_PARTITIONS -> any: it has given up its partitions; the newest target counts.
    UNRELEASED_PARTITIONS -> any: as others give up theirs, or the target changes.

    A member without anything to give up or to wait for is STABLE, in the epoch of its target.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Of a newer Kafka; the member has to begin anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """What a member of the classic protocol sent in JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, subscription), in its order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """Who a member is and what it wants."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    """Empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    """The server's assignor that the member wants; None for any."""
    classic: ClassicMember | None = None
    """Set if the member speaks the classic protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member holds, and in which epoch."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    """The member names it if it has not seen the last answer."""
    state: MemberState = MemberState.STABLE
    assigned: MemberAssignment
    revoking: MemberAssignment
    """What it is to give up."""
    since: Mapping[tuple[TopicId, int], int] = field(default_factory=dict)
    """(topic, partition) -> the epoch in which the member got it (KIP-1251); what is missing here, it
    got in `epoch`."""

    def assignment_epoch(self, pair: tuple[TopicId, int]) -> int:
        """In which epoch the member got a partition that it holds or is to give up; at least 0."""
        return self.since.get(pair, max(self.epoch, JOIN_EPOCH))

    def epochs_of(self, assignment: MemberAssignment) -> dict[tuple[TopicId, int], int]:
        """The same for each partition of an assignment."""
        return {pair: self.assignment_epoch(pair) for pair in pairs_of(assignment)}

    def holds_since(self, pair: tuple[TopicId, int], epoch: int) -> bool:
        """Whether the member has had the partition since that epoch, also if it is to give it up."""
        topic_id, partition = pair
        held = self.assigned.get(topic_id, ()), self.revoking.get(topic_id, ())
        return any(partition in part for part in held) and self.assignment_epoch(pair) <= epoch

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it holds exactly the target assignment of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


NEW_ASSIGNMENT: Final = CurrentAssignment(assigned=NOTHING, revoking=NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member in one step of its life; the next step is another value."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = NEW_ASSIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that match a regular expression of the group's members."""

    topics: frozenset[str]
    version: int
    """The revision of the cluster image in which they were looked for."""
    timestamp_ms: int
    """Wall clock."""
