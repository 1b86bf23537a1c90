"""The coordinator as gateways see it: bytes in, bytes out, answers after the commit."""

import asyncio

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_groups import DeleteGroupsRequest
from highwater.kafka.messages.describe_groups import DescribeGroupsRequest
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
)
from highwater.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from highwater.kafka.messages.list_groups import ListGroupsRequest
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
)
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
)
from highwater.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.partitioning import coordinator_partition
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.state import GroupState
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.node import Node, is_active


def join(member_id="", group="g", **fields):
    protocol = JoinGroupRequestJoinGroupRequestProtocol(name="range", metadata=b"meta")
    fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000} | fields
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
        **fields,
    )


def sync(member_id, generation, assignment=None, group="g"):
    assignments = [
        SyncGroupRequestSyncGroupRequestAssignment(member_id=m, assignment=a)
        for m, a in (assignment or {}).items()
    ]
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member_id, assignments=assignments
    )


def commit(offset, member_id="", generation=-1, group="g", partition=0):
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset
                    )
                ],
            )
        ],
    )


def fetch_all(group="g"):
    return OffsetFetchRequest(group_id=group, topics=None)


def heartbeat(member_id, generation, group="g"):
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)


def committed(response):
    return {
        (t.name, p.partition_index): p.committed_offset
        for t in response.topics
        for p in t.partitions
    }


async def stable_member(node: Node) -> str:
    first = await node.ask(join(), 9)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await node.ask(join(first.member_id), 9)
    assert (joined.generation_id, joined.protocol_name) == (1, "range")
    synced = await node.ask(sync(joined.member_id, 1, {joined.member_id: b"A"}), 5)
    assert synced.assignment == b"A"
    return joined.member_id


async def test_the_life_of_a_consumer():
    node = await Node().lead()
    member = await stable_member(node)
    assert (await node.ask(heartbeat(member, 1), 4)).error_code == 0
    response = await node.ask(commit(42, member, 1), 8)
    assert response.topics[0].partitions[0].error_code == 0
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 42}
    leaving = LeaveGroupRequest(
        group_id="g", members=[LeaveGroupRequestMemberIdentity(member_id=member)]
    )
    assert (await node.ask(leaving, 5)).members[0].error_code == 0
    described = (await node.ask(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]
    assert described.group_state == "Empty"
    await node.coordinator.stop()


async def test_another_node_continues_after_a_crash():
    node = await Node().lead()
    member = await stable_member(node)
    await node.ask(commit(42, member, 1), 8)
    heir = await Node(node.log).lead(epoch=2)
    assert (await heir.ask(heartbeat(member, 1), 4)).error_code == 0
    assert (await heir.ask(sync(member, 1), 5)).assignment == b"A"
    assert committed(await heir.ask(fetch_all(), 7)) == {("t", 0): 42}
    await heir.ask(commit(43, member, 1), 8)
    assert heir.log.appends[-1][:2] == (0, 2)


async def test_answers_wait_for_the_commit_and_heartbeats_do_not():
    node = await Node(MemoryLog(hold=True)).lead()
    first = await node.ask(join(), 9)
    joined = await node.ask(join(first.member_id), 9)
    member = joined.member_id
    synced = node.submit(sync(member, 1, {}), 5)
    await until(lambda: node.log.held)
    beat = node.submit(heartbeat(member, 1), 4)
    assert beat.response.error_code == 0
    assert not synced.done
    node.log.commit()
    assert synced.response.error_code == 0

    commits = node.submit(commit(7, member, 1), 8)
    fetched = node.submit(fetch_all(), 7)
    await until(lambda: node.log.held)
    assert not commits.done
    assert not fetched.done, "it would tell of an offset that may yet be lost"
    node.log.commit()
    assert committed(fetched.response) == {("t", 0): 7}


async def test_records_of_one_turn_share_a_batch():
    node = await Node().lead()
    sent = [node.submit(commit(n, group=f"g{n}"), 8) for n in range(20)]
    await until(lambda: all(s.done for s in sent))
    assert node.log.appends == [(0, 1, 20)]


async def test_a_refused_append_reloads_the_shard():
    node = await Node(MemoryLog()).lead()
    member = await stable_member(node)
    await node.ask(commit(1, member, 1), 8)
    parked = node.submit(join(member), 9)
    node.log.hold = True
    lost = node.submit(commit(2, group="other"), 8)
    waiting = node.submit(fetch_all("other"), 7)
    await until(lambda: node.log.held)
    # The only member of "g" rejoined, which completed the rebalance at once.
    assert parked.response.generation_id == 2
    node.log.hold = False
    node.log.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert lost.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.code == ErrorCode.NOT_COORDINATOR, "as consumers understand it"
    assert not is_active(node.coordinator, 0)
    await until(lambda: is_active(node.coordinator, 0))
    assert committed(await node.ask(fetch_all("other"), 7)) == {}
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 1}
    assert (await node.ask(heartbeat(member, 1), 4)).error_code == 0


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("in_call", [False, True])
async def test_client_errors_of_a_refused_append(refusal, told, in_call):
    node = await Node(MemoryLog(in_call=in_call)).lead()
    node.log.fail_with = refusal
    sent = node.submit(commit(1), 8)
    await until(lambda: sent.done)
    assert sent.code == told
    await node.coordinator.stop()


async def test_parked_calls_are_answered_when_the_partition_moves():
    node = await Node(config=GroupConfig(initial_rebalance_delay_ms=60_000)).lead()
    first = await node.ask(join(), 9)
    parked = node.submit(join(first.member_id), 9)
    node.coordinator.resign(0)
    assert parked.code == ErrorCode.NOT_COORDINATOR
    assert node.submit(commit(1), 8).code == ErrorCode.NOT_COORDINATOR
    assert node.submit(heartbeat("m", 1), 4).code == ErrorCode.NOT_COORDINATOR
    assert node.submit(fetch_all(), 7).code == ErrorCode.NOT_COORDINATOR


async def test_syncs_and_commits_are_answered_when_the_partition_moves():
    node = await Node(config=GroupConfig(initial_rebalance_delay_ms=20)).lead()
    first, second = node.submit(join(), 3), node.submit(join(), 3)
    await until(lambda: first.done and second.done)
    leader = first.response.leader
    follower = next(r.response for r in (first, second) if r.response.member_id != leader)
    waiting = node.submit(sync(follower.member_id, follower.generation_id), 5)
    node.log.hold = True
    leading = node.submit(sync(leader, follower.generation_id, {leader: b"A"}), 5)
    pending = node.submit(commit(1, group="other"), 8)
    await until(lambda: node.log.held)
    assert not (waiting.done or leading.done or pending.done)
    node.coordinator.resign(0)
    assert waiting.code == leading.code == pending.code == ErrorCode.NOT_COORDINATOR
    node.log.commit()
    await asyncio.sleep(0.01)
    assert len(pending.answers) == 1


async def test_new_epoch_replaces_the_shard_and_old_epochs_do_not():
    node = await Node().lead(epoch=3)
    node.coordinator.become_leader(0, 2)
    assert is_active(node.coordinator, 0)
    node.coordinator.become_leader(0, 4)
    assert not is_active(node.coordinator, 0)
    await until(lambda: is_active(node.coordinator, 0))
    await node.ask(commit(1), 8)
    assert node.log.appends == [(0, 4, 1)]


async def test_commits_of_a_former_epoch_change_nothing():
    node = await Node(MemoryLog(hold=True)).lead(epoch=1)
    sent = node.submit(commit(1), 8)
    await until(lambda: node.log.held)
    node.coordinator.become_leader(0, 2)
    assert sent.code == ErrorCode.NOT_COORDINATOR
    node.log.commit()
    await until(lambda: is_active(node.coordinator, 0))
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 1}, "it was committed after all"
    assert len(sent.answers) == 1


async def test_calls_while_loading():
    node = await Node().lead()
    await node.ask(commit(1), 8)
    snapshots = MemorySnapshots()
    snapshots.open.clear()
    other = Node(node.log, snapshots)
    other.coordinator.become_leader(0, 2)
    await asyncio.sleep(0.02)
    assert not is_active(other.coordinator, 0)
    load = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert other.submit(commit(2), 8).code == load
    assert other.submit(join(), 9).code == load
    assert other.submit(fetch_all(), 7).code == load
    assert other.submit(heartbeat("m", 1), 4).response.error_code == 0
    assert other.submit(sync("m", 1), 5).response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert other.submit(ListGroupsRequest(), 4, partition=-1).response.error_code == load
    snapshots.open.set()
    await until(lambda: is_active(other.coordinator, 0))
    assert committed(await other.ask(fetch_all(), 7)) == {("t", 0): 1}


async def test_a_new_leader_answers_after_its_high_watermark_has_caught_up():
    log = MemoryLog(hold=True)
    node = await Node(log).lead()
    node.submit(commit(1), 8)
    await until(lambda: log.held)
    heir = await Node(log).lead(epoch=2)
    read = heir.submit(fetch_all(), 7)
    described = heir.submit(DescribeGroupsRequest(groups=["g"]), 5)
    written = heir.submit(commit(2, partition=1), 8)
    await until(lambda: len(log.held) == 2)
    assert heir.submit(heartbeat("m", 1), 4).response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not (read.done or described.done or written.done)
    log.commit()
    await until(lambda: written.done)
    assert committed(read.response) == {("t", 0): 1}
    assert described.response.groups[0].group_state == "Empty"
    assert committed(await heir.ask(fetch_all(), 7)) == {("t", 0): 1, ("t", 1): 2}


async def test_a_new_leader_that_loses_its_epoch_shows_nothing_uncommitted():
    log = MemoryLog(hold=True)
    node = await Node(log).lead()
    node.submit(commit(1), 8)
    await until(lambda: log.held)
    heir = await Node(log).lead(epoch=2)
    read = heir.submit(fetch_all(), 7)
    heir.coordinator.resign(0)
    assert read.code == ErrorCode.NOT_COORDINATOR
    log.hold = False
    log.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    third = await Node(log).lead(epoch=3)
    assert committed(await third.ask(fetch_all(), 7)) == {}


SHORT_WAIT = HostSettings(commit_timeout_ms=30)


async def test_commit_that_does_not_come_in_time():
    """The answer is an error; the records stay and count once the log commits them."""
    log = MemoryLog(hold=True)
    node = await Node(log, settings=SHORT_WAIT).lead()
    late = node.submit(commit(1), 8)
    read = node.submit(fetch_all(), 7)
    await until(lambda: late.done and read.done)
    assert late.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert read.code == ErrorCode.NOT_COORDINATOR, "old consumers know no other for OffsetFetch"
    assert is_active(node.coordinator, 0)
    log.commit()
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 1}
    assert len(log.appends) == 1


async def test_parked_members_are_answered_when_their_commit_does_not_come():
    log = MemoryLog()
    node = await Node(log, settings=SHORT_WAIT).lead()
    first = await node.ask(join(), 9)
    joined = await node.ask(join(first.member_id), 9)
    log.hold = True
    synced = node.submit(sync(joined.member_id, 1, {joined.member_id: b"A"}), 5)
    await until(lambda: synced.done)
    assert synced.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.hold = False
    log.commit()
    again = await node.ask(join(joined.member_id), 9)
    assert again.error_code == 0, "the group goes on"


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_nothing_is_decided_while_the_log_refuses_appends(refusal, told):
    node = await Node().lead()
    member = await stable_member(node)
    await node.ask(commit(1, member, 1), 8)
    appends = len(node.log.appends)
    node.log.refuse_with = refusal
    assert node.submit(commit(2, member, 1), 8).code == told
    assert node.submit(join(member), 9).code == told
    refused = await node.ask(DeleteGroupsRequest(groups_names=["g"]), 2, partition=-1)
    assert refused.results[0].error_code == told
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 1}, "it can still be read"
    assert (await node.ask(heartbeat(member, 1), 4)).error_code == 0
    node.coordinator.topics_deleted(DEFAULT_INSTANCE, frozenset({"t"}))
    assert len(node.log.appends) == appends
    node.log.refuse_with = 0
    await node.ask(commit(2, member, 1), 8)
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 2}


async def test_parked_call_times_out_with_its_client():
    node = await Node(config=GroupConfig(initial_rebalance_delay_ms=60_000)).lead()
    first = await node.ask(join(), 9)
    parked = node.submit(join(first.member_id), 9, deadline_ms=20)
    await until(lambda: parked.done)
    assert parked.code == ErrorCode.REQUEST_TIMED_OUT


async def test_cancelled_call_is_not_answered():
    node = await Node(config=GroupConfig(initial_rebalance_delay_ms=30)).lead()
    parked = node.submit(join(), 3)
    node.coordinator.cancel(parked.call)
    await asyncio.sleep(0.06)
    assert not parked.done
    assert node.coordinator.stats().members == 0


async def test_timers_run_without_calls():
    config = GroupConfig(initial_rebalance_delay_ms=0, session_timeout_ms_min=10)
    node = await Node(config=config).lead()
    node.submit(join(session_timeout_ms=30, rebalance_timeout_ms=30), 3)
    await until(lambda: node.coordinator.stats().members == 1)
    await until(lambda: node.coordinator.stats().members == 0)
    assert node.coordinator.stats().groups[GroupState.EMPTY] == 1


async def test_bytes_that_do_not_decode():
    node = await Node().lead()
    for key in (8, 9, 11, 12, 13, 14, 15, 42, 47):
        sent = node.submit(None, 0 if key == 47 else 2, api_key=key, body=b"\x7f\xff")
        assert sent.code == ErrorCode.INVALID_REQUEST, key
    assert node.submit(None, 99, api_key=12, body=b"").code == ErrorCode.UNSUPPORTED_VERSION
    assert node.submit(None, 0, api_key=0, body=b"").code == ErrorCode.INVALID_REQUEST
    huge = bytes(16 * 1024 * 1024 + 1)
    assert node.submit(None, 0, api_key=14, body=huge).code == ErrorCode.INVALID_REQUEST
    assert is_active(node.coordinator, 0)


async def test_other_instances_have_another_coordinator():
    node = await Node().lead()
    refused = node.submit(commit(1), 8, instance=InstanceId("tenant"))
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_calls_for_several_groups_find_their_shards():
    node = await Node(partitions=4).lead(0, 1, 2)
    groups = {coordinator_partition(f"g{n}", 4): f"g{n}" for n in range(40)}
    here = [groups[p] for p in (0, 1, 2)]
    for partition in (0, 1, 2):
        await node.ask(commit(partition, group=groups[partition]), 8, partition=partition)
    asked = [OffsetFetchRequestOffsetFetchRequestGroup(group_id=g, topics=None)
             for g in (*here, groups[3])]  # fmt: skip
    response = await node.ask(OffsetFetchRequest(groups=asked), 8, partition=-1)
    assert [g.error_code for g in response.groups] == [0, 0, 0, ErrorCode.NOT_COORDINATOR]
    assert [g.topics[0].partitions[0].committed_offset for g in response.groups[:3]] == [0, 1, 2]
    response = await node.ask(ListGroupsRequest(), 4, partition=-1)
    assert {g.group_id for g in response.groups} == set(here)
    request = DeleteGroupsRequest(groups_names=[*here[:2], groups[3]])
    response = await node.ask(request, 2, partition=-1)
    assert [r.error_code for r in response.results] == [0, 0, ErrorCode.NOT_COORDINATOR]
    response = await node.ask(DescribeGroupsRequest(groups=[*here, groups[3]]), 6, partition=-1)
    assert [g.error_code for g in response.groups] == [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_ID_NOT_FOUND,
        0,
        ErrorCode.NOT_COORDINATOR,
    ]


async def test_deletion_of_several_groups_waits_for_all_commits():
    node = await Node(partitions=2).lead(0, 1)
    groups = {coordinator_partition(f"g{n}", 2): f"g{n}" for n in range(20)}
    for partition, group in groups.items():
        await node.ask(commit(1, group=group), 8, partition=partition)
    node.log.hold = True
    sent = node.submit(DeleteGroupsRequest(groups_names=list(groups.values())), 2, partition=-1)
    await until(lambda: len(node.log.held) == 2)
    held = node.log.held
    node.log.held = held[:1]
    node.log.commit()
    assert not sent.done
    node.log.held = held[1:]
    node.log.commit()
    assert [r.error_code for r in sent.response.results] == [0, 0]


async def test_a_bug_reloads_the_shard_and_nothing_else(monkeypatch):
    node = await Node().lead()
    await node.ask(commit(1), 8)

    def broken(*args):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(
            "highwater.partition.groups.core.shard.GroupCoordinatorShard.commit_offsets", broken
        )
        assert node.submit(commit(2), 8).code == ErrorCode.UNKNOWN_SERVER_ERROR
    await until(lambda: is_active(node.coordinator, 0))
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 1}


async def test_log_that_falls_behind_is_not_written_further():
    settings = HostSettings(uncommitted_bytes_max=2_000)
    node = await Node(MemoryLog(hold=True), settings=settings).lead()
    sent = []
    while not sent or not sent[-1].done:
        sent.append(node.submit(commit(len(sent)), 8))
        await asyncio.sleep(0)
        assert len(sent) < 100
    assert sent[-1].code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    node.log.commit()
    assert all(s.response for s in sent[:-1])


async def test_stats_and_committed_offsets():
    node = await Node().lead()
    member = await stable_member(node)
    await node.ask(commit(5, member, 1), 8)
    stats = node.coordinator.stats()
    assert (stats.members, stats.offsets, stats.parked) == (1, 1, 0)
    assert (stats.shards_active, stats.shards_loading) == (1, 0)
    assert stats.groups[GroupState.STABLE] == 1
    assert list(node.coordinator.committed_offsets()) == [((DEFAULT_INSTANCE, "g"), "t", 0, 5)]
    node.coordinator.topics_deleted(DEFAULT_INSTANCE, frozenset({"t"}))
    assert node.coordinator.stats().offsets == 0


async def test_a_shard_whose_activation_fails_is_loaded_again(monkeypatch):
    node = await Node().lead()
    member = await stable_member(node)
    heir = Node(node.log)
    activate = GroupCoordinatorShard.activate
    bugs = [ValueError("bug")]

    def fail_once(shard, now):
        if bugs:
            raise bugs.pop()
        activate(shard, now)

    monkeypatch.setattr(GroupCoordinatorShard, "activate", fail_once)
    heir.coordinator.become_leader(0, 2)
    await until(lambda: not bugs)
    assert heir.submit(commit(5, member, 1), 8).code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await until(lambda: is_active(heir.coordinator, 0))
    assert (await heir.ask(heartbeat(member, 1), 4)).error_code == 0


async def test_a_bug_during_a_topic_deletion_reloads_only_its_shard(monkeypatch):
    node = await Node().lead()
    await node.ask(commit(5), 8)

    def bug(*_):
        raise ValueError("bug")

    monkeypatch.setattr(GroupCoordinatorShard, "topics_deleted", bug)
    node.coordinator.topics_deleted(DEFAULT_INSTANCE, frozenset({"t"}))
    await until(lambda: is_active(node.coordinator, 0))
    assert committed(await node.ask(fetch_all(), 7)) == {("t", 0): 5}


async def test_clean_stop_leaves_a_snapshot_and_the_next_start_reads_no_log():
    snapshots = MemorySnapshots()
    node = await Node(snapshots=snapshots).lead()
    member = await stable_member(node)
    await node.ask(commit(5, member, 1), 8)
    await node.coordinator.stop()
    assert snapshots.saves == 1
    heir = Node(node.log, snapshots)
    reads = len(heir.log.reads)
    await heir.lead(epoch=2)
    assert len(heir.log.reads) == reads
    assert committed(await heir.ask(fetch_all(), 7)) == {("t", 0): 5}
    assert (await heir.ask(heartbeat(member, 1), 4)).error_code == 0


async def test_stop_answers_calls_whose_records_never_commit():
    node = await Node(MemoryLog(hold=True)).lead()
    sent = node.submit(commit(1), 8)
    await node.coordinator.stop(timeout_s=0.05)
    assert sent.code == ErrorCode.NOT_COORDINATOR
