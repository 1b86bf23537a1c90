"""JoinGroup as conversations."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.values import LeavingMember
from tests.unit.partition.groups.dialogue import Dialogue


def test_new_member_is_sent_back_for_its_id_and_leads_generation_one():
    d = Dialogue()
    first = d.join(client="app")
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.join.member_id == "app-id1"
    second = d.join("app-id1", client="app")
    assert second.parked
    d.run_due()
    assert second.error is ErrorCode.NONE
    assert second.join.generation == 1
    assert second.join.leader == "app-id1"
    assert second.join.protocol == "range"
    assert second.join.protocol_type == "consumer"
    assert [m.metadata for m in second.join.members] == [b"meta"]
    assert d.state() == "CompletingRebalance"


def test_old_versions_join_without_a_second_round():
    d = Dialogue()
    call = d.join(version=3)
    d.run_due()
    assert call.join.generation == 1


def test_only_the_leader_gets_the_members():
    d = Dialogue()
    one, two = d.new_member(client="one"), d.new_member(client="two")
    d.run_due()
    assert {m.member_id for m in one.join.members} == {one.join.member_id, two.join.member_id}
    assert two.join.members == ()
    assert two.join.leader == one.join.member_id


def test_initial_rebalance_waits_and_waits_on_while_members_arrive():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=3_000))
    one = d.new_member(client="one")
    d.wait(2_000)
    two = d.new_member(client="two")
    d.wait(1_500)  # The first delay is over, but a member arrived during it.
    assert one.parked
    d.wait(2_500)
    assert one.join.generation == two.join.generation == 1


def test_initial_rebalance_waits_no_longer_than_the_rebalance_timeout():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = d.new_member(client="one", rebalance_ms=5_000)
    for n in range(4):
        d.wait(1_400)
        d.new_member(client=f"more{n}", rebalance_ms=5_000)
    assert d.now_ms == 5_600
    d.wait(500)
    assert not first.parked


def test_a_member_id_that_was_never_issued_is_unknown():
    d = Dialogue()
    assert d.join("made-up").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.shard.groups == {}
    d.stable_pair()
    assert d.join("made-up").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_id_expires_with_the_session_and_the_group_is_forgotten():
    d = Dialogue()
    call = d.join(session_ms=6_000)
    d.wait(6_000)
    assert d.join(call.join.member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.shard.groups == {}
    assert d.log == []


def test_pending_member_holds_up_a_rebalance_until_it_expires():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.join(client="slow", session_ms=6_000)
    again = d.join(leader)
    other = d.join(follower)
    assert again.parked
    assert other.parked
    d.wait(6_000)
    assert again.join.generation == 2


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_outside_its_limits(session_ms):
    assert Dialogue().join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_empty_group_id():
    assert Dialogue().join(group="").error is ErrorCode.INVALID_GROUP_ID


def test_no_protocols_or_no_type_is_inconsistent_and_leaves_nothing_behind():
    d = Dialogue()
    assert d.join(protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.join(protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.shard.groups == {}


def test_member_without_a_common_protocol_is_refused():
    d = Dialogue()
    d.stable_pair()
    assert d.join(protocols=(("sticky", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_is_chosen_by_votes_among_the_common_ones():
    d = Dialogue()
    calls = [
        d.new_member(protocols=(("a", b""), ("b", b""), ("x", b""))),
        d.new_member(protocols=(("b", b""), ("a", b""))),
        d.new_member(protocols=(("y", b""), ("b", b""), ("a", b""))),
    ]
    d.run_due()
    assert {c.join.protocol for c in calls} == {"b"}


def test_duplicate_protocol_counts_once():
    d = Dialogue()
    call = d.new_member(protocols=(("a", b"first"), ("a", b"second")))
    d.run_due()
    assert call.join.members[0].metadata == b"first"


def test_two_member_rebalance_when_a_third_joins():
    d = Dialogue()
    leader, follower = d.stable_pair()
    third = d.new_member(client="three")
    assert third.parked
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    one, two = d.join(leader), d.join(follower)
    assert one.join.generation == two.join.generation == third.join.generation == 2
    assert one.join.leader == leader
    assert len(one.join.members) == 3


def test_member_that_does_not_rejoin_in_time_is_out():
    d = Dialogue()
    leader, follower = d.stable_pair()
    third = d.new_member(client="three", session_ms=30_000, rebalance_ms=60_000)
    rejoined = d.join(follower, session_ms=30_000)
    for _ in range(12):
        d.wait(5_000)
        d.heartbeat(leader, 1)  # It lives but never rejoins.
    assert rejoined.join.generation == 2
    assert third.join.generation == 2
    assert rejoined.join.leader == follower, "the old leader is gone, who came next leads"
    assert d.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_follower_rejoining_unchanged_gets_the_present_generation():
    d = Dialogue()
    _, follower = d.stable_pair()
    call = d.join(follower)
    assert call.join.generation == 1
    assert call.join.members == ()
    assert d.state() == "Stable"


def test_leader_rejoining_or_changed_metadata_forces_a_rebalance():
    d = Dialogue()
    leader, follower = d.stable_pair()
    assert d.join(leader).parked
    d.join(follower)
    assert d.state() == "CompletingRebalance"
    d.sync(leader, 2, {})
    assert d.state() == "Stable"
    assert d.join(follower, protocols=(("range", b"more"),)).parked
    assert d.state() == "PreparingRebalance"


def test_lost_join_response_is_repeated_while_the_rebalance_completes():
    d = Dialogue()
    one = d.new_member(client="one")
    d.run_due()
    again = d.join(one.join.member_id)
    assert again.join.generation == 1
    assert len(again.join.members) == 1


def test_changed_metadata_while_completing_sends_waiting_followers_back():
    d = Dialogue()
    one, two = d.new_member(client="one"), d.new_member(client="two")
    d.run_due()
    waiting = d.sync(two.join.member_id, 1)
    changed = d.join(one.join.member_id, protocols=(("range", b"new"),))
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert changed.parked


def test_second_join_of_the_same_member_answers_the_first():
    d = Dialogue()
    leader, _ = d.stable_pair()
    first = d.join(leader)
    second = d.join(leader)
    assert first.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert second.parked


def test_group_full():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, group_size_max=2))
    leader, follower = d.stable_pair()
    assert d.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    one, two = d.join(leader), d.join(follower)
    assert one.join.generation == two.join.generation == 2


def test_nobody_waits_for_a_member_that_was_refused():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, group_size_max=3))
    leader, follower = d.stable_pair()
    accepted, refused = (d.join().join.member_id for _ in range(2))
    calls = [d.join(each) for each in (accepted, leader, follower)]
    assert all(call.parked for call in calls), "one more id was handed out"
    assert d.join(refused).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [call.join.generation for call in calls] == [2, 2, 2]


def test_limit_of_pending_ids_and_of_parked_calls_and_of_groups():
    d = Dialogue(
        GroupConfig(pending_members_max=1, parked_max=1, groups_max=1, initial_rebalance_delay_ms=9)
    )
    first = d.join()
    assert d.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.join(group="other").error is ErrorCode.POLICY_VIOLATION
    assert d.join(first.join.member_id).parked
    assert d.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_limits_of_a_shard_keep_new_members_out_and_present_ones_in():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, members_max=4))
    leader, follower = d.stable_pair()
    pending = d.join(group="other")
    assert d.join(group="third").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.join(leader).parked
    assert d.join(pending.join.member_id, group="other").parked
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, metadata_bytes_max=20))
    leader, follower = d.stable_pair()
    assert d.shard.metadata_bytes == 2 * len("rangemeta")
    assert d.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    d.join(leader)
    assert d.join(follower).join.generation == 2


def test_a_member_whose_metadata_does_not_fit_a_record():
    d = Dialogue(GroupConfig(operation_bytes_max=1_000))
    huge = (("range", bytes(1_000)),)
    assert d.join(protocols=huge).error is ErrorCode.GROUP_MAX_SIZE_REACHED


# -- static members (KIP-345, KIP-814) ----------------------------------------------------------


def static_group(d: Dialogue, version: int = 9) -> tuple[str, str]:
    """A stable group of two static members, s1 (leader) and s2."""
    one = d.join(instance_id="s1", version=version)
    two = d.join(instance_id="s2", version=version)
    d.run_due()
    ids = one.join.member_id, two.join.member_id
    d.sync(ids[0], 1, {ids[0]: b"A", ids[1]: b"B"}, instance_id="s1")
    d.sync(ids[1], 1, instance_id="s2")
    return ids


def test_static_member_restarts_without_a_rebalance():
    d = Dialogue()
    _, old = static_group(d)
    again = d.join(instance_id="s2")
    new = again.join.member_id
    assert new != old
    assert again.join.generation == 1
    assert again.after_commit, "the new id is written before it is told"
    assert d.state() == "Stable"
    assert d.sync(new, 1, instance_id="s2").sync.assignment == b"B"
    assert d.heartbeat(new, 1, instance_id="s2") is ErrorCode.NONE


def test_old_incarnation_of_a_static_member_is_fenced():
    d = Dialogue()
    _, old = static_group(d)
    d.join(instance_id="s2")
    assert d.heartbeat(old, 1, instance_id="s2") is ErrorCode.FENCED_INSTANCE_ID
    assert d.sync(old, 1, instance_id="s2").error is ErrorCode.FENCED_INSTANCE_ID
    assert d.join(old, instance_id="s2").error is ErrorCode.FENCED_INSTANCE_ID
    assert d.commit({("t", 0): 1}, old, 1, instance_id="s2") == [ErrorCode.FENCED_INSTANCE_ID]
    fenced = LeavingMember(member_id=old, instance_id="s2")
    assert d.leave(fenced) == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_returning_static_leader_must_skip_the_assignment():
    d = Dialogue()
    static_group(d)
    again = d.join(instance_id="s1")
    assert again.join.leader == again.join.member_id
    assert again.join.skip_assignment
    assert len(again.join.members) == 2


def test_returning_static_leader_before_v9_does_not_take_itself_for_the_leader():
    d = Dialogue()
    old, _ = static_group(d, version=5)
    again = d.join(instance_id="s1", version=5)
    assert again.join.leader == old
    assert again.join.member_id != old
    assert not again.join.skip_assignment
    assert again.join.members == ()


def test_static_member_that_changes_the_protocol_forces_a_rebalance():
    d = Dialogue()
    both = (("range", b""), ("sticky", b""))
    one = d.join(instance_id="s1", protocols=both)
    d.run_due()
    d.sync(one.join.member_id, 1, {})
    assert d.join(instance_id="s1", protocols=(("sticky", b""),)).join.generation == 2


def test_static_member_returning_while_the_group_completes_forces_another_round():
    d = Dialogue()
    one, two = d.join(instance_id="s1"), d.join(instance_id="s2")
    d.run_due()
    waiting = d.sync(two.join.member_id, 1, instance_id="s2")
    again = d.join(instance_id="s2")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert again.parked
    assert d.join(one.join.member_id, instance_id="s1").join.generation == 2
    assert again.join.generation == 2


def test_static_member_returning_during_the_join_phase_fences_the_parked_call():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=1_000))
    first = d.join(instance_id="s1")
    second = d.join(instance_id="s1")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    d.wait(1_000)
    assert second.join.generation == 1
    assert len(second.join.members) == 1


def test_static_member_outlives_a_rebalance_it_misses_until_its_session_ends():
    d = Dialogue()
    one, two = static_group(d)
    d.new_member(client="three", rebalance_ms=4_000)
    again = d.join(one, instance_id="s1", rebalance_ms=4_000)
    d.wait(60_000)
    assert d.heartbeat(two, 1, instance_id="s2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert again.join.generation == 2


def test_static_member_whose_return_does_not_fit_a_record_rebalances():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, operation_bytes_max=1_000))
    one, _ = static_group(d)
    again = d.join(instance_id="s2", protocols=(("range", bytes(900)),))
    assert again.parked
    d.join(one, instance_id="s1")
    assert again.join.generation == 2
    assert len(d.log) == 1


def test_unknown_instance_id_with_a_member_id():
    d = Dialogue()
    leader, _ = d.stable_pair()
    assert d.join(leader, instance_id="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_with_an_instance_id_is_unknown():
    d = Dialogue()
    pending = d.join().join.member_id
    assert d.join(pending, instance_id="s").error is ErrorCode.UNKNOWN_MEMBER_ID
