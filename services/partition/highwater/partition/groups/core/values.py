"""What goes into and comes out of the core: keys, requests, responses.

The shell translates them from and to Kafka's messages; versions show here only as what a client
can do (`requires_known_member_id`, `supports_skip_assignment`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId


class GroupKey(NamedTuple):
    """A group is named within its instance."""

    instance: InstanceId
    group_id: str


class Moment(NamedTuple):
    """One reading of both clocks, handed to every handler."""

    now_ms: int
    """Monotonic; timers use it."""
    wall_ms: int
    """Since the Unix epoch; records carry it."""


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
    """(name, metadata), the member's favourite first."""
    requires_known_member_id: bool
    """JoinGroup v4+: a new dynamic member is sent back for its id first (KIP-394)."""
    supports_skip_assignment: bool
    """JoinGroup v9+ (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member as the leader is told of it."""

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
    """A SyncGroup request; only the leader's `assignments` count."""

    key: GroupKey
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResponse:
    """The answer to SyncGroup: this member's part of the assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """A member that leaves: by member id, or by instance id with an empty member id (KIP-345)."""

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
    """An OffsetCommit request; generation -1 with no member is a simple commit."""

    key: GroupKey
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    """-1 for the broker's setting; only OffsetCommit v2-4 can carry another."""
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One line of ListGroups."""

    group_id: str
    protocol_type: str
    state: str


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


class Reply(NamedTuple):
    """An answer for a call that had been parked (or was answered at once)."""

    token: object
    """What the shell gave with the request."""
    response: JoinResponse | SyncResponse
    after_commit: bool
    """True when it tells of records that must be committed first."""
