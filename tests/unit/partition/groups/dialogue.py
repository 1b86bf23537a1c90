"""A dialogue with one shard: calls, virtual time, and the invariants checked after every step."""

from __future__ import annotations

import itertools

from highwater.kafka.error_codes import ErrorCode
from highwater.model.group_config import bounds_of
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core import invariants
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import Record
from highwater.partition.groups.core.group_limit import GroupLimit, no_limit
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import (
    CommitRequest,
    GroupKey,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    OffsetToCommit,
    SyncRequest,
    SyncResponse,
)
from tests.unit.partition.groups.topics import FakeTopics

WALL_MS = 1_700_000_000_000
"""The wall clock's time when the virtual clock shows 0."""

AT_ONCE = bounds_of({"group.consumer.assignment.interval.ms": "0"})
"""Target assignments of consumer groups do not wait for one another."""

NO_DELAY = GroupConfig(initial_rebalance_delay_ms=0, consumer_bounds=AT_ONCE)


class Call:
    """One JoinGroup or SyncGroup; `response` is None while it is parked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.response: JoinResponse | SyncResponse | None = None
        self.after_commit = False

    @property
    def parked(self) -> bool:
        return self.response is None

    @property
    def join(self) -> JoinResponse:
        assert isinstance(self.response, JoinResponse), self.name
        return self.response

    @property
    def sync(self) -> SyncResponse:
        assert isinstance(self.response, SyncResponse), self.name
        return self.response

    @property
    def error(self) -> ErrorCode:
        assert self.response is not None, f"{self.name} is parked"
        return self.response.error


class Dialogue:
    """Calls a shard as clients do, with a clock that only `wait` moves."""

    def __init__(
        self,
        config: GroupConfig = NO_DELAY,
        log: list[Record] | None = None,
        topics: FakeTopics | None = None,
        limit: GroupLimit = no_limit,
    ) -> None:
        self.limit = limit
        self.config = config
        self.topics = topics or FakeTopics()
        self.configs = ImageGroupConfigs(config.consumer_bounds)
        self.now_ms = 0
        self.log: list[Record] = [] if log is None else log
        self._ids = itertools.count(1)
        self.shard = self._load(self.log)

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WALL_MS + self.now_ms)

    def _load(self, log: list[Record]) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(
            self.config,
            lambda: f"id{next(self._ids)}",
            lambda state: ConsumerShard(state, self.topics, ASSIGNORS, self.configs.of),
            self.limit,
        )
        for record in log:
            shard.replay(record)
        shard.activate(self.moment)
        invariants.check(shard)
        return shard

    def restart(self) -> None:
        """The node dies, and another one loads the log."""
        self.shard = self._load(self.log)

    def settle(self) -> None:
        invariants.check(self.shard)
        self.log.extend(self.shard.take_records())
        for token, response, after_commit in self.shard.take_replies():
            assert isinstance(token, Call)
            assert token.response is None, f"{token.name} was answered twice"
            token.response = response
            token.after_commit = after_commit

    def wait(self, ms: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        target = self.now_ms + ms
        while True:
            deadline = self.shard.next_deadline_ms()
            if deadline is None or deadline > target:
                break
            self.now_ms = max(self.now_ms, deadline)
            self.shard.expire(self.moment)
            self.settle()
        self.now_ms = target

    def run_due(self) -> None:
        """Run the timers that are due now, as a loop turn does."""
        self.wait(0)

    def join(
        self,
        member_id: str = "",
        *,
        group: str | GroupKey = "g",
        client: str = "c",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"meta"),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
    ) -> Call:
        call = Call(f"join {member_id or client}")
        request = JoinRequest(
            key=key(group),
            member_id=member_id,
            instance_id=instance_id,
            client_id=client,
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            requires_known_member_id=version >= 4,
            supports_skip_assignment=version >= 9,
        )
        self.shard.join_group(request, call, self.moment)
        self.settle()
        return call

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str | GroupKey = "g",
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Call:
        call = Call(f"sync {member_id}")
        request = SyncRequest(
            key=key(group),
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=tuple((assignments or {}).items()),
        )
        self.shard.sync_group(request, call, self.moment)
        self.settle()
        return call

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        group: str | GroupKey = "g",
        instance_id: str | None = None,
    ) -> ErrorCode:
        error = self.shard.heartbeat(key(group), generation, member_id, instance_id, self.moment)
        self.settle()
        return error

    def leave(self, *leaving: str | LeavingMember, group: str | GroupKey = "g") -> list[ErrorCode]:
        members = tuple(
            m if isinstance(m, LeavingMember) else LeavingMember(member_id=m) for m in leaving
        )
        error, errors = self.shard.leave_group(key(group), members, self.moment)
        assert error is ErrorCode.NONE
        self.settle()
        return errors

    def vanish(self, call: Call) -> None:
        """The client of a parked call closes its connection."""
        self.shard.forget_call(call, self.moment)
        self.settle()

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        member_id: str = "",
        generation: int = -1,
        *,
        group: str | GroupKey = "g",
        instance_id: str | None = None,
        metadata: str = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
    ) -> list[ErrorCode]:
        request = CommitRequest(
            key=key(group),
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            retention_ms=retention_ms,
            offsets=tuple(
                OffsetToCommit(topic, partition, offset, leader_epoch, metadata)
                for (topic, partition), offset in offsets.items()
            ),
        )
        errors = self.shard.commit_offsets(request, self.moment)
        self.settle()
        return errors

    def committed(self, topic: str, partition: int, *, group: str | GroupKey = "g") -> int | None:
        value = self.shard.committed_offset(key(group), topic, partition)
        return None if value is None else value.offset

    def state(self, group: str | GroupKey = "g") -> str | None:
        described = self.shard.describe_group(key(group))
        return None if described is None else described.state

    # -- short cuts ---------------------------------------------------------------------------

    def new_member(self, **options: object) -> Call:
        """JoinGroup without an id, then again with the returned id, as v4+ clients do."""
        first = self.join(**options)  # type: ignore[arg-type]
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(first.join.member_id, **options)  # type: ignore[arg-type]

    def stable_pair(self) -> tuple[str, str]:
        """A stable group "g" in generation 1: (leader, follower)."""
        one = self.new_member(client="one")
        two = self.new_member(client="two")
        self.run_due()
        leader, follower = one.join.member_id, two.join.member_id
        waiting = self.sync(follower, 1)
        self.sync(leader, 1, {leader: b"A", follower: b"B"})
        assert waiting.sync.assignment == b"B"
        return leader, follower


def key(group: str | GroupKey) -> GroupKey:
    """A group of the default instance, unless the key says whose it is."""
    return group if isinstance(group, GroupKey) else GroupKey(DEFAULT_INSTANCE, group)
