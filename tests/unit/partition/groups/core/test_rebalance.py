"""Steps of a rebalance that no single call shows; whole rebalances are in test_joining."""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import GroupConfig
from tests.unit.partition.groups.dialogue import Dialogue, key


def test_initial_rebalance_whose_members_all_go_ends_empty():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=3_000, new_member_join_timeout_ms=1_000))
    call = d.new_member()
    d.wait(1_000)
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.state() == "Empty"
    assert d.shard.durable.images[key("g")].generation == 1
    d.wait(10_000)
    assert d.shard.durable.images[key("g")].generation == 1, "the first delay is over for good"


def test_second_first_rebalance_is_delayed_again():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = d.new_member()
    d.wait(3_000)
    d.leave(first.join.member_id)
    assert d.state() == "Empty"
    again = d.new_member()
    d.wait(2_999)
    assert again.parked
    d.wait(1)
    assert again.join.generation == 3


def test_rebalance_that_a_static_member_misses_goes_on_without_its_assignment():
    d = Dialogue()
    one = d.join(instance_id="s1", rebalance_ms=5_000, session_ms=30_000)
    d.run_due()
    static = one.join.member_id
    d.sync(static, 1, {}, instance_id="s1")
    two = d.new_member(client="two", rebalance_ms=5_000, session_ms=30_000)
    d.wait(4_999)
    assert two.parked
    d.wait(1)
    assert {m.member_id for m in two.join.members} == {static, two.join.member_id}
    assert d.state() == "CompletingRebalance"
    d.sync(two.join.member_id, 2, {})
    d.wait(5_000)
    assert static not in d.shard.groups[key("g")].members, "it had its rebalance timeout to sync"


def test_a_static_member_rejoins_after_all_others_failed_to():
    d = Dialogue()
    one = d.join(instance_id="s1", rebalance_ms=5_000, session_ms=60_000)
    two = d.join(instance_id="s2", rebalance_ms=5_000, session_ms=60_000)
    d.run_due()
    leader = one.join.member_id
    d.sync(leader, 1, {}, instance_id="s1")
    d.sync(two.join.member_id, 1, instance_id="s2")
    dynamic = d.new_member(client="three", rebalance_ms=5_000)
    assert dynamic.parked
    (member_id,) = {m.member_id for m in d.shard.groups[key("g")].members.values()
                    if m.instance_id is None}  # fmt: skip
    d.leave(member_id)
    d.wait(20_000)
    assert d.state() == "PreparingRebalance", "it is postponed as long as nobody is back"
    again = d.join(leader, instance_id="s1")
    last = d.join(two.join.member_id, instance_id="s2")
    assert again.join.generation == last.join.generation == 2


def test_sync_timer_is_off_when_everybody_has_synced():
    d = Dialogue()
    leader, _ = d.stable_pair()
    group = d.shard.groups[key("g")]
    assert group.pending_sync == set()
    assert group.sync_timer.deadline_ms is None
    d.join(leader)
    assert group.sync_timer.deadline_ms is None
