"""Restarts: the state that the log alone restores."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import GroupImage, GroupRecord, MemberImage
from tests.unit.partition.groups.dialogue import Dialogue, key


def test_stable_group_goes_on_after_a_restart():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.commit({("t", 0): 7}, leader, 1)
    d.restart()
    assert d.state() == "Stable"
    assert d.heartbeat(leader, 1) is ErrorCode.NONE
    assert d.sync(follower, 1).sync.assignment == b"B"
    assert d.commit({("t", 0): 8}, follower, 1) == [ErrorCode.NONE]
    assert d.join(follower).join.generation == 1
    assert d.join(leader).parked


def test_members_that_died_with_the_node_expire():
    d = Dialogue()
    d.stable_pair()
    d.restart()
    d.wait(10_000)
    assert d.state() == "Empty"


def test_rebalance_in_progress_is_lost_and_starts_over():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.join(leader)
    d.join(follower)
    assert d.heartbeat(leader, 2) is ErrorCode.NONE
    d.restart()
    assert d.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    again = d.join(leader)
    d.join(follower)
    assert again.join.generation == 2


def test_static_members_survive_with_their_instance_ids():
    d = Dialogue()
    one = d.join(instance_id="s1")
    d.run_due()
    old = one.join.member_id
    d.sync(old, 1, {old: b"A"}, instance_id="s1")
    new = d.join(instance_id="s1").join.member_id
    d.restart()
    assert d.heartbeat(old, 1, instance_id="s1") is ErrorCode.FENCED_INSTANCE_ID
    assert d.sync(new, 1, instance_id="s1").sync.assignment == b"A"


def test_empty_group_keeps_its_generation():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.leave(leader, follower)
    d.restart()
    assert d.state() == "Empty"
    call = d.new_member()
    d.run_due()
    assert call.join.generation == 3


def test_group_larger_than_the_limit_rebalances_when_loaded():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.config = GroupConfig(initial_rebalance_delay_ms=0, group_size_max=1)
    d.restart()
    assert d.state() == "PreparingRebalance"
    assert d.join(follower).parked
    assert d.join(leader).error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("leader", [None, "gone"])
def test_image_with_an_odd_leader(leader):
    member = MemberImage(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1,
        session_timeout_ms=10_000,
        subscription=b"",
        assignment=b"A",
    )
    image = GroupImage(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=leader,
        state_since_ms=-1,
        members=(member,),
    )
    d = Dialogue(log=[GroupRecord(key("g"), image)])
    assert d.heartbeat("m", 3) is ErrorCode.NONE
    assert d.shard.groups[key("g")].leader == "m"


def test_records_of_the_state_lead_to_the_same_state():
    d = Dialogue()
    leader, _ = d.stable_pair()
    d.commit({("t", 0): 7, ("t", 1): 8}, leader, 1)
    d.commit({("u", 0): 9}, group="simple")
    copy = d.shard.durable.capture()
    d.commit({("t", 0): 70}, leader, 1)
    e = Dialogue(log=list(copy.records()))
    assert e.shard.durable.images == d.shard.durable.images
    assert e.committed("t", 0) == 7
    assert e.shard.durable.offset_count == 3


def test_every_prefix_of_the_log_is_a_consistent_state():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.commit({("t", 0): 1, ("t", 1): 2}, leader, 1)
    d.leave(follower)
    d.join(leader)
    d.sync(leader, 2, {leader: b"AB"})
    d.leave(leader)
    d.shard.delete_group(key("g"), d.moment)
    d.settle()
    assert len(d.log) == 8
    for length in range(len(d.log) + 1):
        prefix = Dialogue(log=d.log[:length])
        prefix.wait(60_000)
        prefix.new_member()
        prefix.run_due()
