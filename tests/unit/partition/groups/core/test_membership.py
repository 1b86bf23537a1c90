"""Heartbeats, departures and deaths as conversations."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.values import LeavingMember
from tests.unit.partition.groups.dialogue import Dialogue, key


def test_heartbeats_keep_a_member_and_silence_loses_it():
    d = Dialogue()
    leader, follower = d.stable_pair()
    for _ in range(6):
        d.wait(9_999)
        assert d.heartbeat(leader, 1) is ErrorCode.NONE
        assert d.heartbeat(follower, 1) is ErrorCode.NONE
    d.wait(9_999)
    assert d.heartbeat(leader, 1) is ErrorCode.NONE
    d.wait(1)
    assert d.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.join(leader).join.generation == 2


def test_leader_failure_lets_the_follower_lead():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.wait(5_000)
    d.heartbeat(follower, 1)
    d.wait(5_000)
    assert d.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = d.join(follower)
    assert again.join.leader == follower
    assert [m.member_id for m in again.join.members] == [follower]


def test_zombie_of_an_old_generation():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.join(leader)
    d.join(follower)
    d.sync(leader, 2, {})
    assert d.heartbeat(follower, 1) is ErrorCode.ILLEGAL_GENERATION
    assert d.sync(follower, 1).error is ErrorCode.ILLEGAL_GENERATION
    assert d.commit({("t", 0): 9}, follower, 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert d.committed("t", 0) is None


def test_heartbeat_refusals():
    d = Dialogue()
    assert d.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID
    leader, _ = d.stable_pair()
    assert d.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert d.heartbeat(leader, 1, instance_id="s") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_while_the_rebalance_completes_keeps_the_member():
    d = Dialogue()
    one = d.new_member()
    d.run_due()
    for _ in range(4):
        d.wait(9_000)
        assert d.heartbeat(one.join.member_id, 1) is ErrorCode.NONE
    assert d.state() == "CompletingRebalance"


def test_leaving_follower_starts_a_rebalance_and_the_last_one_empties_the_group():
    d = Dialogue()
    leader, follower = d.stable_pair()
    assert d.leave(follower) == [ErrorCode.NONE]
    assert d.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.leave(leader) == [ErrorCode.NONE]
    assert d.state() == "Empty"
    image = d.shard.durable.images[key("g")]
    assert (image.generation, image.members, image.leader) == (2, (), None)


def test_leave_while_the_rebalance_completes_sends_the_others_back():
    d = Dialogue()
    one, two = d.new_member(client="one"), d.new_member(client="two")
    d.run_due()
    waiting = d.sync(two.join.member_id, 1)
    d.leave(one.join.member_id)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_leave_ends_the_join_phase_when_everybody_else_is_there():
    d = Dialogue()
    leader, follower = d.stable_pair()
    again = d.join(leader)
    assert again.parked
    d.leave(follower)
    assert again.join.generation == 2


def test_leave_answers_the_members_own_parked_join():
    d = Dialogue()
    leader, _ = d.stable_pair()
    parked = d.join(leader)
    d.leave(leader)
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_refusals_and_batches():
    d = Dialogue()
    assert d.leave("m") == [ErrorCode.UNKNOWN_MEMBER_ID]
    leader, follower = d.stable_pair()
    errors = d.leave(
        LeavingMember(member_id="nobody"),
        LeavingMember(member_id=follower),
        LeavingMember(member_id="", instance_id="s"),
        LeavingMember(member_id="", instance_id=None),
        LeavingMember(member_id=leader, instance_id="s"),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [unknown, ErrorCode.NONE, unknown, unknown, unknown]


def test_admin_removes_a_static_member_by_its_instance_id():
    d = Dialogue()
    one = d.join(instance_id="s1")
    d.run_due()
    assert d.leave(LeavingMember(member_id="", instance_id="s1")) == [ErrorCode.NONE]
    assert d.heartbeat(one.join.member_id, 1, instance_id="s1") is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_may_leave():
    d = Dialogue()
    pending = d.join().join.member_id
    assert d.leave(pending) == [ErrorCode.NONE]
    assert d.shard.groups == {}


def test_client_that_vanishes_before_it_knows_its_id_is_removed_at_once():
    d = Dialogue()
    leader, follower = d.stable_pair()
    ghost = d.join(version=3)
    d.vanish(ghost)
    assert ghost.parked
    one, two = d.join(leader), d.join(follower)
    assert one.join.generation == two.join.generation == 2
    assert len(one.join.members) == 2


def test_client_that_vanishes_and_comes_back_with_its_id_is_still_a_member():
    d = Dialogue()
    leader, follower = d.stable_pair()
    lost = d.join(leader)
    d.vanish(lost)
    again = d.join(leader)
    d.join(follower)
    assert lost.parked
    assert again.join.generation == 2


@pytest.mark.parametrize("waiting_in", ["join", "sync"])
def test_member_whose_client_vanished_while_waiting_expires(waiting_in):
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.wait(9_000)
    call = d.join(leader)
    if waiting_in == "sync":
        d.join(follower)
        call = d.sync(follower, 2)
    d.vanish(call)
    gone, stays = (leader, follower) if waiting_in == "join" else (follower, leader)
    generation = 1 if waiting_in == "join" else 2
    d.wait(900)
    d.heartbeat(stays, generation)
    d.wait(9_099)
    assert gone in d.shard.groups[key("g")].members
    d.wait(1)
    assert gone not in d.shard.groups[key("g")].members


def test_the_wait_of_a_new_member_has_a_limit():
    d = Dialogue()
    leader, _ = d.stable_pair()
    late = d.new_member(client="late", rebalance_ms=900_000, session_ms=6_000)
    for _ in range(60):
        d.wait(5_000)
        d.heartbeat(leader, 1)
    assert late.error is ErrorCode.UNKNOWN_MEMBER_ID
