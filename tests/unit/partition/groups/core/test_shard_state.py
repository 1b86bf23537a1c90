import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import CommittedOffset, OffsetRecord
from highwater.partition.groups.core.rebalance import create_group
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import DEAD
from highwater.partition.groups.core.values import GroupKey
from tests.unit.partition.groups.core.test_group import member
from tests.unit.partition.groups.dialogue import key


@pytest.fixture
def state() -> ShardState:
    return ShardState(GroupConfig(), lambda: "x")


def test_apply_replays_and_leaves_the_record_to_be_appended(state):
    record = OffsetRecord(key("g"), "t", 0, CommittedOffset(1, -1, "", 1))
    state.apply(record)
    assert state.records == [record]
    assert state.durable.offset_count == 1


def test_each_instance_gets_as_many_groups_as_are_left_and_the_default_one_all():
    state = ShardState(GroupConfig(groups_max=6), lambda: "x")
    red, blue, last = (GroupKey(InstanceId(name), "g") for name in ("red", "blue", "last"))
    assert fill(state, red) == 3
    assert fill(state, blue) == 2
    assert fill(state, last) == 1
    alone = ShardState(GroupConfig(groups_max=6), lambda: "x")
    assert fill(alone, key("g")) == 6
    group = alone.groups[key("g0")]
    alone.kill(group, 1)
    assert alone.count(key("g").instance) == 5
    assert not alone.refuses_group(key("g").instance)


def fill(state, prefix):
    """Makes groups until the instance is refused; how many."""
    for number in range(10):
        if state.refuses_group(prefix.instance):
            return number
        create_group(state, prefix._replace(group_id=f"g{number}"), 1)
    raise AssertionError("never refused")


def test_removed_member_gets_its_answers_and_no_timer(state):
    group = create_group(state, key("g"), 1)
    one, two = member("one"), member("two")
    state.add_member(group, one, "consumer")
    state.add_member(group, two, "consumer")
    state.park_join(group, one, "join")
    state.park_sync(group, two, "sync")
    state.restart_session(one, Moment(0, 0))
    for member_id in ("one", "two", "nobody"):
        state.remove_member(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    assert [(r.token, r.response.error) for r in state.replies] == [
        ("join", ErrorCode.UNKNOWN_MEMBER_ID),
        ("sync", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert state.parked == {}
    assert len(state.timers) == 0


def test_unused_group_is_forgotten_and_a_used_one_is_not(state):
    group = create_group(state, key("g"), 1)
    state.add_pending_member(group, "p", state.new_timer(lambda now: None), 5)
    state.forget_if_unused(group, 1)
    assert key("g") in state.groups
    assert state.remove_pending_member(group, "p")
    assert not state.remove_pending_member(group, "p")
    state.forget_if_unused(group, 1)
    assert state.groups == {}
    assert group.state is DEAD


def test_killed_group_leaves_no_timers(state):
    group = create_group(state, key("g"), 1)
    state.add_pending_member(group, "p", state.new_timer(lambda now: None), 5)
    state.timers.set(group.join_timer, 5)
    state.kill(group, 1)
    assert len(state.timers) == 0
