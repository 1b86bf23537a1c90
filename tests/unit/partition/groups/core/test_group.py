import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.timers import Timer
from highwater.partition.groups.core.group import GENERATION_MAX, ClassicGroup, Member
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    IllegalGroupTransitionError,
)
from tests.unit.partition.groups.dialogue import key


def idle() -> Timer:
    return Timer(lambda now: None)


def new_group() -> ClassicGroup:
    return ClassicGroup(key("g"), join_timer=idle(), sync_timer=idle(), wall_ms=1)


def member(member_id, *protocols, instance_id=None, rebalance_ms=1_000) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=10_000,
        protocols=tuple((name, name.encode()) for name in protocols or ("range",)),
        session=idle(),
    )


def add(group, *args, **options) -> Member:
    m = member(*args, **options)
    group.add(m, "consumer")
    return m


def test_first_member_leads_and_the_next_one_after_it():
    group = new_group()
    add(group, "a")
    add(group, "b")
    add(group, "c")
    assert group.leader == "a"
    group.remove("a")
    assert group.leader == "b"
    group.remove("c")
    assert group.leader == "b"
    group.remove("b")
    assert group.leader is None
    assert group.votes == {}
    assert group.remove("b") is None


def test_leader_is_elected_among_those_that_joined():
    group = new_group()
    assert not group.elect_joined_leader()
    add(group, "a")
    b = add(group, "b")
    assert not group.elect_joined_leader()
    group.set_awaiting_join(b, object())
    assert group.elect_joined_leader()
    assert group.leader == "b"


def test_protocol_choice():
    group = new_group()
    add(group, "a", "x", "y", "z")
    add(group, "b", "y", "x")
    add(group, "c", "y", "x", "w")
    assert group.select_protocol() == "y"
    group.remove("b")
    assert group.select_protocol() == "x", "equal votes: the first member's favourite"
    assert group.supports("consumer", [("w", b""), ("x", b"")])
    assert not group.supports("consumer", [("w", b"")])
    assert not group.supports("connect", [("x", b"")])


def test_update_moves_the_votes():
    group = new_group()
    a = add(group, "a", "x")
    group.update(a, protocols=(("y", b""),), rebalance_timeout_ms=5, session_timeout_ms=6)
    assert group.votes == {"y": 1}
    assert (a.rebalance_timeout_ms, a.session_timeout_ms) == (5, 6)
    assert a.offers((("y", b""),))
    assert not a.offers((("y", b"!"),))


def test_everybody_joined():
    group = new_group()
    a, b = add(group, "a", rebalance_ms=10), add(group, "b", rebalance_ms=30)
    assert group.rebalance_timeout_ms() == 30
    group.set_awaiting_join(a, "t1")
    group.set_awaiting_join(a, "t2")
    assert not group.all_joined()
    group.set_awaiting_join(b, "t3")
    assert group.all_joined()
    group.pending_members["p"] = idle()
    assert not group.all_joined()
    group.pending_members.clear()
    assert group.clear_awaiting_join(a) == "t2"
    assert group.clear_awaiting_join(a) is None
    group.remove("b")
    assert group.awaiting_join_count == 0


def test_validation_of_static_members():
    group = new_group()
    add(group, "a", instance_id="s")
    add(group, "b")
    assert group.validate("a", "s") is ErrorCode.NONE
    assert group.validate("a", None) is ErrorCode.NONE
    assert group.validate("b", "s") is ErrorCode.FENCED_INSTANCE_ID
    assert group.validate("a", "other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate("c", None) is ErrorCode.UNKNOWN_MEMBER_ID


def test_rename_keeps_place_lead_and_pending_sync():
    group = new_group()
    a = add(group, "a", instance_id="s")
    add(group, "b")
    group.pending_sync = {"a", "b"}
    group.rename(a, "a2")
    assert list(group.members) == ["a2", "b"]
    assert (group.leader, group.static_members) == ("a2", {"s": "a2"})
    assert group.pending_sync == {"a2", "b"}


def test_generations():
    group = new_group()
    a = add(group, "a")
    group.transition(PREPARING_REBALANCE, 5)
    group.next_generation(6)
    assert (group.state, group.generation, group.protocol) == (COMPLETING_REBALANCE, 1, "range")
    assert group.state_since_ms == 6
    assert group.image({"a": b"A"}, 7).members[0].assignment == b"A"
    assert group.image({}, 7).members[0].assignment == b""
    group.transition(STABLE, 8)
    group.transition(PREPARING_REBALANCE, 9)
    group.remove(a.member_id)
    group.generation = GENERATION_MAX
    group.next_generation(10)
    assert (group.state, group.generation, group.protocol) == (EMPTY, 0, None)


def test_illegal_transition_is_a_bug():
    with pytest.raises(IllegalGroupTransitionError):
        new_group().transition(STABLE, 1)
