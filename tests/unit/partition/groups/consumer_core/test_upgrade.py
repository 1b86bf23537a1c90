"""A member of the consumer protocol joins a classic group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.core.config import MigrationPolicy
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, holding, settle
from tests.unit.partition.groups.dialogue import NO_DELAY, key
from tests.unit.partition.groups.embedded_members import (
    assignment,
    stable_classic,
    subscription,
)


def test_a_stable_group_goes_on_with_its_members_and_assignment() -> None:
    d = Talk()
    one, two = stable_classic(d)
    c = Consumer(d, "c")
    assert c.join().assignment == NOTHING
    assert d.state() is None
    group = d.group()
    assert set(group.members) == {one.id, two.id, "c"}
    assert group.epoch == 2
    for _ in range(3):
        for member in (one, two):
            assert member.beat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        c.beat()
    held = [one.held["t"], two.held["t"], c.partitions["t"]]
    assert sorted(sum(held, ())) == [0, 1, 2, 3, 4, 5]
    assert {len(each) for each in held} == {2}
    assert one.beat() is ErrorCode.NONE


def test_the_upgrade_survives_a_restart() -> None:
    d = Talk()
    one, two = stable_classic(d)
    Consumer(d, "c").join()
    before = d.group().members
    d.restart()
    assert d.group().members == before
    assert one.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    d.wait(10_000)  # The session timeout of the classic members.
    assert set(d.group().members) == {"c"}
    assert two.id not in d.group().members


def test_members_that_wait_in_a_rebalance_are_sent_back() -> None:
    d = Talk()
    one, _ = stable_classic(d)
    one.held = {}
    waiting = one.send_join()
    assert waiting.parked
    Consumer(d, "c").join()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.join.member_id == one.id


def test_an_empty_classic_group_gives_way_and_its_offsets_stay() -> None:
    d = Talk()
    one, two = stable_classic(d)
    d.leave(one.id, two.id)
    d.commit({("t", 0): 7})
    assert d.state() == "Empty"
    c = Consumer(d, "c")
    assert c.join().epoch == 1
    assert d.committed("t", 0) == 7
    d.restart()
    assert set(d.group().members) == {"c"}
    assert d.state() is None


def test_a_simple_group_gives_way() -> None:
    d = Talk()
    d.commit({("t", 0): 7})
    Consumer(d, "c").join()
    assert d.committed("t", 0) == 7


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_the_policy_may_forbid_it(policy: MigrationPolicy) -> None:
    d = Talk(config=replace(NO_DELAY, migration_policy=policy))
    stable_classic(d)
    answer = Consumer(d, "c").join()
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.message == (
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    )
    assert d.state() == "Stable"


def test_another_protocol_type_is_not_upgraded() -> None:
    d = Talk()
    d.new_member(protocol_type="connect", protocols=(("p", b""),))
    assert Consumer(d, "c").join().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_no_consumer_wrote_is_not_upgraded() -> None:
    d = Talk()
    d.stable_pair()
    answer = Consumer(d, "c").join()
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.message is not None
    assert "malformed" in answer.message


def test_the_data_of_an_assignor_at_the_clients_would_be_lost() -> None:
    d = Talk()
    call = d.new_member(protocols=(("own", subscription("t")),))
    d.run_due()
    member_id = call.join.member_id
    d.sync(member_id, 1, {member_id: assignment(b"data", t=(0,))})
    answer = Consumer(d, "c").join()
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.message is not None
    assert "custom assignor" in answer.message
    assert d.state() == "Stable"


def test_a_classic_group_that_is_too_large() -> None:
    d = Talk(config=replace(NO_DELAY, consumer_group_size_max=1))
    stable_classic(d)
    assert Consumer(d, "c").join().error is ErrorCode.GROUP_ID_NOT_FOUND
    d = Talk(config=replace(NO_DELAY, consumer_group_size_max=2))
    stable_classic(d)
    assert Consumer(d, "c").join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert d.state() == "Stable"


def test_a_classic_group_does_not_answer_heartbeats_of_the_new_protocol() -> None:
    d = Talk()
    one, _ = stable_classic(d)
    answer = d.send(one.id, 1)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.message == "Group g is not a consumer group."


def test_a_member_changes_its_protocol_under_its_id() -> None:
    d = Talk()
    one, two = stable_classic(d)
    again = Consumer(d, one.id)
    again.join()
    for _ in range(3):
        two.beat()
        again.beat()
    assert set(d.group().members) == {one.id, two.id}
    assert d.group().members[one.id].metadata.classic is None
    assert sorted(again.partitions["t"] + two.held["t"]) == [0, 1, 2, 3, 4, 5]


def test_too_many_groups_in_one_shard() -> None:
    d = Talk(config=replace(NO_DELAY, groups_max=1))
    Consumer(d, "a").join()
    fields = {"rebalance_timeout_ms": 1, "topic_names": frozenset({"t"}), "owned": NOTHING}
    refused = d.send("a", 0, group="other", **fields)
    assert refused.error is ErrorCode.POLICY_VIOLATION
    assert refused.message == "The coordinator has reached its maximum capacity."
    settle([Consumer(d, "b")], rounds=0)
    assert key("other") not in d.shard.durable.consumer_groups


def test_a_partition_that_two_members_were_given_belongs_to_one() -> None:
    """An assignor at the clients may do so; the invariants are checked after each step."""
    d = Talk()
    calls = [d.new_member(protocols=(("range", subscription("t")),)) for _ in range(2)]
    d.run_due()
    ids = [call.join.member_id for call in calls]
    d.sync(ids[1], 1)
    d.sync(ids[0], 1, {ids[0]: assignment(t=(0, 1, 2)), ids[1]: assignment(t=(2, 3, 4, 5))})
    Consumer(d, "c").join()
    assert {i: d.group().members[i].current.assigned for i in ids} == {
        ids[0]: holding(t=(0, 1, 2)),
        ids[1]: holding(t=(3, 4, 5)),
    }
