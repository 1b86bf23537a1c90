"""The classic group protocol, message by message."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.protocol.groups import (
    HEARTBEAT_VERSION,
    JOIN_VERSION,
    SYNC_VERSION,
    Member,
    join_request,
    subscription,
)
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only


class Members:
    """Makes members on connections to the coordinator, all closed at the end of the test."""

    def __init__(self, cluster: Cluster, group: str, stack: contextlib.ExitStack) -> None:
        self._group = group
        self._stack = stack
        with RawConnection.to(cluster.bootstrap) as connection:
            self._host, self._port = find_coordinator(connection, group)

    def new(self, instance_id: str | None = None) -> Member:
        connection = self._stack.enter_context(RawConnection(self._host, self._port))
        return Member(connection=connection, group=self._group, instance_id=instance_id)


def find_coordinator(connection: RawConnection, group: str) -> tuple[str, int]:
    """Asks until a coordinator answers: the first request creates the internal topic."""
    deadline = time.monotonic() + CLIENT_TIMEOUT_S
    while True:
        reply = connection.ask(FindCoordinatorRequest(key=group), 2)
        if reply.error_code == ErrorCode.NONE:
            return reply.host, reply.port
        assert reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert time.monotonic() < deadline, "no coordinator"
        time.sleep(0.1)


@pytest.fixture
def members(cluster: Cluster, group: str) -> Iterator[Members]:
    """Members of the test's group; the coordinator is known and ready."""
    with contextlib.ExitStack() as stack:
        made = Members(cluster, group, stack)
        probe = made.new()
        probe.member_id = "nobody"
        wait_until(
            lambda: probe.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID,
            timeout_s=CLIENT_TIMEOUT_S,
            what="the coordinator has loaded",
        )
        yield made


@pytest.mark.core
def test_a_group_of_one(members: Members) -> None:
    member = members.new()
    reply = member.join()
    assert reply.error_code == ErrorCode.NONE
    assert (reply.generation_id, reply.protocol_name) == (1, "range")
    assert reply.leader == member.member_id
    assert [(one.member_id, one.metadata) for one in reply.members] == [
        (member.member_id, subscription("range"))
    ]
    synced = member.sync({member.member_id: b"everything"})
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"everything")
    assert member.heartbeat() == ErrorCode.NONE
    left = member.leave()
    assert (left.error_code, only(left.members).error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_is_required_first(members: Members, group: str) -> None:
    member = members.new()
    reply = member.connection.ask(join_request(group), JOIN_VERSION)
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert reply.member_id.startswith("raw-"), "the client id and a unique part"
    # Clients before version 4 (KIP-394) do not know that error.
    old = members.new().connection.ask(join_request(f"{group}-old"), 3)
    assert (old.error_code, old.generation_id) == (ErrorCode.NONE, 1)


@pytest.mark.core
def test_a_second_member_rebalances_the_group(members: Members) -> None:
    first, second = members.new(), members.new()
    first.join()
    first.sync({first.member_id: b"all"})
    # The second member's JoinGroup waits until the first one has joined again.
    reply = second.connection.ask(second.join_request(), JOIN_VERSION)
    second.member_id = reply.member_id
    second.connection.send(second.join_request(), JOIN_VERSION)
    wait_until(
        lambda: first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS,
        timeout_s=CLIENT_TIMEOUT_S,
        what="the first member learns of the rebalance",
    )
    first.join()
    second.joined(second.connection.receive())
    assert (first.generation, second.generation) == (2, 2)
    assert first.is_leader and not second.is_leader
    assert set(first.others) == {first.member_id, second.member_id}
    assert second.others == [], "only the leader gets the list"
    # A follower's SyncGroup waits for the leader's.
    second.connection.send(second.sync_request(), SYNC_VERSION)
    time.sleep(0.2)
    mine = first.sync({first.member_id: b"one", second.member_id: b"two"})
    other = second.connection.receive()
    assert (mine.assignment, other.assignment) == (b"one", b"two")
    assert first.heartbeat() == second.heartbeat() == ErrorCode.NONE
    second.leave()
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_member_is_removed(members: Members) -> None:
    first, second = members.new(), members.new()
    first.join(session_timeout_ms=6_000)
    first.sync({first.member_id: b"all"})
    reply = second.connection.ask(second.join_request(), JOIN_VERSION)
    second.member_id = reply.member_id
    started = time.monotonic()
    # The first member does not join again: its session ends before the rebalance timeout.
    second.joined(second.connection.ask(second.join_request(), JOIN_VERSION))
    assert 3 < time.monotonic() - started < 15
    assert second.is_leader and second.others == [second.member_id]
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_joins_again_starts_a_rebalance(members: Members) -> None:
    member = members.new()
    member.join()
    member.sync({member.member_id: b"all"})
    # The leader may know of new partitions; a follower without changes causes no rebalance.
    again = member.join()
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)


def test_errors_of_a_member(members: Members, made_topic: str) -> None:
    member = members.new()
    member.join()
    member.sync({member.member_id: b"all"})
    stranger = members.new()
    stranger.member_id, stranger.generation = "stranger", member.generation
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.commit(made_topic, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert only(stranger.leave().members).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    joined = stranger.connection.ask(stranger.join_request(), JOIN_VERSION)
    assert joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.generation += 7
    assert member.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert member.sync().error_code == ErrorCode.ILLEGAL_GENERATION
    assert member.commit(made_topic, 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_that_does_not_name_its_protocol(members: Members) -> None:
    member = members.new()
    member.join()
    for kind, name in ((None, "range"), ("consumer", None)):
        request = member.sync_request({member.member_id: b"all"})
        request.protocol_type, request.protocol_name = kind, name
        answer = member.connection.ask(request, 5)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync({member.member_id: b"all"}).assignment == b"all"


def test_errors_of_joining(members: Members, group: str) -> None:
    connection = members.new().connection

    def code(**settings: object) -> int:
        asked = {"member_id": "", **settings}
        reply = connection.ask(join_request(str(asked.pop("group", group)), **asked), 3)  # type: ignore[arg-type]
        error: int = reply.error_code
        return error

    assert code(group="") == ErrorCode.INVALID_GROUP_ID
    assert code(session_timeout_ms=10) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert code(session_timeout_ms=2**31 - 1) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert code(protocols=()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(protocol_type="") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code() == ErrorCode.NONE
    other = members.new().connection
    reply = other.ask(join_request(group, protocols=("sticky",)), 3)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    reply = other.ask(join_request(group, protocol_type="connect"), 3)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_all_members_have_wins(members: Members) -> None:
    first, second = members.new(), members.new()
    first.join(protocols=("sticky", "range"))
    first.sync({first.member_id: b""})
    reply = second.connection.ask(second.join_request(protocols=("range",)), JOIN_VERSION)
    second.member_id = reply.member_id
    second.connection.send(second.join_request(protocols=("range",)), JOIN_VERSION)
    time.sleep(0.2)
    assert first.join(protocols=("sticky", "range")).protocol_name == "range"
    assert second.connection.receive().protocol_name == "range"


def test_a_static_member_comes_back_without_a_rebalance(members: Members) -> None:
    member = members.new(instance_id="rack-1")
    assert member.join().error_code == ErrorCode.NONE
    member.sync({member.member_id: b"all"})
    again = members.new(instance_id="rack-1")
    reply = again.join()
    assert (reply.error_code, reply.generation_id) == (ErrorCode.NONE, member.generation)
    assert reply.member_id != member.member_id
    assert again.sync().assignment == b"all"
    assert member.heartbeat() == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.core
def test_commits_are_returned(members: Members, made_topic: str) -> None:
    member = members.new()
    member.join()
    member.sync({member.member_id: b"all"})
    none = member.committed(made_topic)
    assert (none.error_code, none.committed_offset, none.metadata) == (ErrorCode.NONE, -1, "")
    assert member.commit(made_topic, 42, "a note") == ErrorCode.NONE
    part = member.committed(made_topic)
    assert (part.committed_offset, part.metadata, part.committed_leader_epoch) == (42, "a note", 0)
    assert member.commit(made_topic, 43, "x" * 5_000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert member.committed(made_topic).committed_offset == 42


def test_commits_without_a_member(members: Members, made_topic: str) -> None:
    simple = members.new()
    assert simple.commit(made_topic, 7) == ErrorCode.NONE, "a group without members"
    member = members.new()
    member.join()
    member.sync({member.member_id: b"all"})
    assert simple.commit(made_topic, 8) == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.committed(made_topic).committed_offset == 7


def test_commits_during_a_rebalance(members: Members, made_topic: str) -> None:
    member = members.new()
    member.join()
    # The leader has not sent assignments yet.
    assert member.commit(made_topic, 1) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", range(5))
def test_find_coordinator(connection: RawConnection, group: str, version: int) -> None:
    find_coordinator(connection, group)
    if version < 4:
        reply = connection.ask(FindCoordinatorRequest(key=group), version)
        assert reply.error_code == ErrorCode.NONE
        found = reply
    else:
        request = FindCoordinatorRequest(coordinator_keys=[group, f"{group}-2"])
        coordinators = connection.ask(request, version).coordinators
        assert [one.key for one in coordinators] == [group, f"{group}-2"]
        found = coordinators[0]
        assert found.error_code == ErrorCode.NONE
    with RawConnection(found.host, found.port) as other:
        assert other.ask(FindCoordinatorRequest(key=group), 1).node_id == found.node_id


def test_heartbeats_in_every_version(members: Members) -> None:
    member = members.new()
    member.join()
    member.sync({member.member_id: b"all"})
    for version in range(HEARTBEAT_VERSION + 1):
        request = HeartbeatRequest(
            group_id=member.group, generation_id=member.generation, member_id=member.member_id
        )
        assert member.connection.ask(request, version).error_code == ErrorCode.NONE
