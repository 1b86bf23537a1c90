"""Inputs and outputs of the core: keys, requests, responses.

The handlers translate them from and to Kafka's messages. An API version appears here only as an
ability of the client (`requires_known_member_id`, `supports_skip_assignment`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.key import GroupKey as GroupKey  # noqa: PLC0414 - part of these values.


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request; `member_id` is "" for a member without one yet."""

    key: GroupKey
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), in the member's order of preference."""
    requires_known_member_id: bool
    """JoinGroup v4+: a new dynamic member first gets an id and joins again with it (KIP-394)."""
    supports_skip_assignment: bool
    """JoinGroup v9+ (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member in the leader's JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResponse:
    """The answer to JoinGroup; `members` is filled for the leader only."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request; `assignments` is used only if the leader sends it."""

    key: GroupKey
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """The answer to SyncGroup, with this member's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """A member that leaves, by member id, or by instance id and empty member id (KIP-345)."""

    member_id: str
    instance_id: str | None = None


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit request."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """An OffsetCommit request; a simple commit has generation -1 and no member."""

    key: GroupKey
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    """-1 for the broker's setting; OffsetCommit v2-4 can carry another value."""
    offsets: tuple[OffsetToCommit, ...]
    knows_member_epochs: bool = False
    """OffsetCommit v9+: the client knows of consumer groups, and understands GROUP_ID_NOT_FOUND."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group in the answer to ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """One member in DescribeGroups; metadata and assignment only while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group in DescribeGroups."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


Response = JoinResponse | SyncResponse
"""What answers a parked call."""
