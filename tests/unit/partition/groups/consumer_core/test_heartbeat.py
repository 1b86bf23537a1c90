"""ConsumerGroupHeartbeat as conversations: joining, rebalancing, fencing, leaving."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.group_state import ConsumerGroupState
from highwater.partition.groups.consumer.member import MemberState
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, holding, settle
from tests.unit.partition.groups.dialogue import NO_DELAY


def test_the_first_member_gets_everything_with_its_first_heartbeat() -> None:
    d = Talk()
    answer = Consumer(d, "a").join()
    assert answer.assignment == holding(t=(0, 1, 2, 3, 4, 5))
    assert (answer.member_id, answer.epoch, answer.interval_ms) == ("a", 1, 5_000)
    assert d.group().state is ConsumerGroupState.STABLE


def test_an_unchanged_assignment_is_not_told_again_unless_asked_for() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    assert d.send("a", 1).assignment is None
    full = d.send("a", 1, rebalance_timeout_ms=60_000, topic_names=frozenset({"t"}), owned=a.held)
    assert full.assignment == a.held
    assert full.epoch == 1


def test_a_partition_moves_only_after_its_owner_has_given_it_up() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    assert b.held == NOTHING
    assert b.epoch == 2
    assert d.group().members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
    told = d.send("a", 1)  # It does not say what it holds.
    assert told.epoch == 1
    assert told.assignment is not None
    assert len(told.assignment[next(iter(told.assignment))]) == 3
    assert d.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    assert b.beat().assignment is None
    a.held = told.assignment
    assert a.beat().epoch == 2
    b.beat()
    assert sorted(a.partitions["t"] + b.partitions["t"]) == [0, 1, 2, 3, 4, 5]
    assert d.group().state is ConsumerGroupState.STABLE


def test_members_share_what_a_member_leaves_behind() -> None:
    d = Talk()
    members = [Consumer(d, name) for name in "abc"]
    for member in members:
        member.join()
    settle(members)
    assert {len(m.partitions["t"]) for m in members} == {2}
    answer = members[2].leave()
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, -1)
    settle(members[:2])
    assert {len(m.partitions["t"]) for m in members[:2]} == {3}


def test_another_subscription_takes_partitions_away_and_gives_others() -> None:
    d = Talk()
    a = Consumer(d, "a", "t")
    a.join()
    answer = a.beat(topic_names=frozenset({"u"}))
    assert answer.assignment == NOTHING
    assert a.beat().assignment == holding(u=(0, 1))
    assert d.group().state is ConsumerGroupState.STABLE


def test_a_lost_answer_does_not_fence_a_member_that_holds_what_it_was_given() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    d.topics.set("t", 7)
    d.topics_change()
    a.beat()
    assert a.epoch == 2
    assert d.send("a", 1, owned=holding(t=(0,))).epoch == 2
    refused = d.send("a", 1, owned=holding(t=(9,)))
    assert refused.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert d.send("a", 1).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_of_another_epoch_is_fenced_and_may_join_again() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    ahead = d.send("a", 5, owned=a.held)
    assert ahead.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert ahead.message is not None
    assert "greater member epoch (5)" in ahead.message
    assert a.join().assignment == holding(t=(0, 1, 2, 3, 4, 5))


def test_unknown_groups_and_members_have_errors_of_their_own() -> None:
    d = Talk()
    assert d.send("a", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert d.send("a", -1).error is ErrorCode.GROUP_ID_NOT_FOUND
    Consumer(d, "a").join()
    assert d.send("b", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.send("b", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    settle([a, b])
    d.wait(44_999)
    b.beat()
    d.wait(1)
    assert set(d.group().members) == {"b"}
    b.beat()
    assert len(b.partitions["t"]) == 6


def test_a_member_that_does_not_give_up_partitions_is_removed() -> None:
    d = Talk()
    a, b = Consumer(d, "a", rebalance_timeout_ms=10_000), Consumer(d, "b")
    a.join()
    b.join()
    d.send("a", 1)
    for _ in range(9):
        d.wait(1_000)
        assert d.send("a", 1).error is ErrorCode.NONE
    d.wait(1_000)
    assert d.send("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.beat().assignment == holding(t=(0, 1, 2, 3, 4, 5))


def test_a_static_member_comes_back_to_its_partitions() -> None:
    d = Talk()
    a, b = Consumer(d, "a", instance_id="i"), Consumer(d, "b")
    a.join()
    b.join()
    settle([a, b])
    held, epoch = a.held, d.group().epoch
    answer = a.leave(-2)
    assert (answer.error, answer.epoch) == (ErrorCode.NONE, -2)
    assert d.group().members["a"].current.epoch == -2
    again = Consumer(d, "a2", instance_id="i")
    assert again.join().assignment == held
    assert d.group().epoch == epoch
    assert set(d.group().members) == {"a2", "b"}
    assert a.beat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_come_back_under_the_same_id() -> None:
    d = Talk()
    a = Consumer(d, "a", instance_id="i")
    a.join()
    a.leave(-2)
    assert a.join().assignment == holding(t=(0, 1, 2, 3, 4, 5))


def test_a_static_member_joins_once_more_if_the_answer_was_lost() -> None:
    d = Talk()
    a = Consumer(d, "a", instance_id="i")
    a.join()
    d.restart()
    assert a.join().assignment == holding(t=(0, 1, 2, 3, 4, 5))
    assert Consumer(d, "b", instance_id="i").join().error is ErrorCode.UNRELEASED_INSTANCE_ID
    settle([a])
    assert a.beat().error is ErrorCode.NONE


def test_a_static_member_that_is_there_is_not_replaced() -> None:
    d = Talk()
    Consumer(d, "a", instance_id="i").join()
    other = Consumer(d, "b", instance_id="i")
    assert other.join().error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert other.leave().error is ErrorCode.FENCED_INSTANCE_ID
    assert d.send("b", 1, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_removed() -> None:
    d = Talk()
    a, b = Consumer(d, "a", instance_id="i"), Consumer(d, "b")
    a.join()
    b.join()
    settle([a, b])
    a.leave(-2)
    d.wait(30_000)
    b.beat()
    d.wait(15_000)
    b.beat()
    assert set(d.group().members) == {"b"}
    assert len(b.partitions["t"]) == 6


def test_a_full_group_takes_no_further_member() -> None:
    d = Talk(config=replace(NO_DELAY, consumer_group_size_max=1))
    a = Consumer(d, "a")
    a.join()
    assert Consumer(d, "b").join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.join().error is ErrorCode.NONE


def test_the_coordinator_makes_ids_for_clients_of_version_0() -> None:
    d = Talk()
    fields = {"rebalance_timeout_ms": 1, "topic_names": frozenset({"t"}), "owned": NOTHING}
    assert d.send("", 0, makes_its_id=False, **fields).member_id == "id1"


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_a_member_may_name_an_assignor(assignor: str) -> None:
    d = Talk()
    assert Consumer(d, "a", assignor=assignor).join().error is ErrorCode.NONE
    described = d.shard.describe_consumer_group(next(iter(d.shard.durable.consumer_groups)))
    assert described is not None
    assert described.assignor == assignor


def test_a_group_survives_a_restart_with_all_its_epochs() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    a.beat()
    before = {m: d.group().members[m] for m in "ab"}
    d.restart()
    d.wait(100)
    assert d.group().members == before
    settle([a, b])
    assert sorted(a.partitions["t"] + b.partitions["t"]) == [0, 1, 2, 3, 4, 5]
    d.restart()
    d.wait(45_000)
    assert not d.group().members


def test_a_restart_keeps_the_deadline_for_giving_up_partitions() -> None:
    d = Talk()
    a, b = Consumer(d, "a", rebalance_timeout_ms=10_000), Consumer(d, "b")
    a.join()
    b.join()
    d.send("a", 1)
    d.restart()
    d.wait(10_000)
    assert set(d.group().members) == {"b"}
