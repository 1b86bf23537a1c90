"""A member of a classic group that sends raw requests (KIP-62, KIP-394, KIP-345)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
)
from highwater.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
)
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestTopic,
)
from highwater.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
)
from tests.support.wire import RawConnection, only

JOIN_VERSION = 6
SYNC_VERSION = 4
HEARTBEAT_VERSION = 4
LEAVE_VERSION = 4
COMMIT_VERSION = 8
OFFSET_FETCH_VERSION = 6

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 20_000


def subscription(user_data: str) -> bytes:
    """A version 0 consumer subscription to no topics: Kafka parses it, so it must be valid."""
    data = user_data.encode()
    return struct.pack(">hii", 0, 0, len(data)) + data


def join_request(
    group: str,
    *,
    member_id: str = "",
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    protocol_type: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
    instance_id: str | None = None,
) -> JoinGroupRequest:
    """A JoinGroup whose protocols all have the metadata `subscription(name)`."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestJoinGroupRequestProtocol(name=name, metadata=subscription(name))
            for name in protocols
        ],
    )


@dataclass(slots=True, kw_only=True)
class Member:
    """A member with its own connection, since a waiting JoinGroup blocks its connection."""

    connection: RawConnection
    group: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    others: list[str] = field(default_factory=list)

    def join(self, **settings: Any) -> Any:
        """Joins, with the second attempt that KIP-394 requires; returns the last reply."""
        reply = self.connection.ask(self.join_request(**settings), JOIN_VERSION)
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            reply = self.connection.ask(self.join_request(**settings), JOIN_VERSION)
        return self.joined(reply)

    def join_request(self, **settings: Any) -> JoinGroupRequest:
        return join_request(
            self.group, member_id=self.member_id, instance_id=self.instance_id, **settings
        )

    def joined(self, reply: Any) -> Any:
        """Takes member id and generation from a JoinGroup reply."""
        if reply.error_code == ErrorCode.NONE:
            self.member_id = reply.member_id
            self.generation = reply.generation_id
            self.is_leader = reply.leader == reply.member_id
            self.others = [member.member_id for member in reply.members]
        return reply

    def sync_request(self, assignments: dict[str, bytes] | None = None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestSyncGroupRequestAssignment(member_id=member, assignment=content)
                for member, content in (assignments or {}).items()
            ],
        )

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        return self.connection.ask(self.sync_request(assignments), SYNC_VERSION)

    def heartbeat(self) -> int:
        """Returns the error code."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        code: int = self.connection.ask(request, HEARTBEAT_VERSION).error_code
        return code

    def leave(self) -> Any:
        """Returns the whole reply."""
        member = LeaveGroupRequestMemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id
        )
        request = LeaveGroupRequest(group_id=self.group, members=[member])
        return self.connection.ask(request, LEAVE_VERSION)

    def commit(self, topic: str, offset: int, metadata: str = "") -> int:
        """Commits for partition 0; returns the error code."""
        part = OffsetCommitRequestOffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=0,
            committed_metadata=metadata,
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        reply = self.connection.ask(request, COMMIT_VERSION)
        code: int = only(only(reply.topics).partitions).error_code
        return code

    def committed(self, topic: str) -> Any:
        """Returns OffsetFetch's result for partition 0."""
        wanted = OffsetFetchRequestOffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=self.group, topics=[wanted])
        reply = self.connection.ask(request, OFFSET_FETCH_VERSION)
        assert reply.error_code == ErrorCode.NONE
        return only(only(reply.topics).partitions)
