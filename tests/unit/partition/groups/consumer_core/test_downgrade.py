"""The last member of the consumer protocol leaves a group with members of the classic one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import MigrationPolicy
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import NO_DELAY, key
from tests.unit.partition.groups.embedded_members import (
    Embedded,
    assigned,
    stable_classic,
    subscription,
)


def mixed(d: Talk) -> tuple[Embedded, Embedded, Consumer]:
    one, two = stable_classic(d)
    c = Consumer(d, "c")
    c.join()
    for _ in range(3):
        one.beat()
        two.beat()
        c.beat()
    return one, two, c


def test_the_group_becomes_classic_and_rebalances() -> None:
    d = Talk()
    one, two, c = mixed(d)
    c.leave()
    assert key("g") not in d.shard.durable.consumer_groups
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(one.id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    stored = d.shard.durable.images[key("g")]
    assert stored.generation == 2
    assert {m.member_id for m in stored.members} == {one.id, two.id}
    assert len(assigned(stored.members[0].assignment)["t"]) == 2
    calls = [one.send_join(), two.send_join()]
    assert {call.join.generation for call in calls} == {3}


def test_it_follows_a_session_that_ends() -> None:
    d = Talk()
    one, two, _ = mixed(d)
    for _ in range(8):
        d.wait(5_000)
        one.beat()
        two.beat()
    d.wait(5_000)
    assert d.state() == "PreparingRebalance"


def test_the_downgrade_survives_a_restart() -> None:
    d = Talk()
    one, two, c = mixed(d)
    c.leave()
    d.restart()
    assert d.state() == "Stable"
    assert d.heartbeat(one.id, 2) is ErrorCode.NONE
    assert d.heartbeat(two.id, 2) is ErrorCode.NONE


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_the_policy_may_forbid_it(policy: MigrationPolicy) -> None:
    d = Talk()
    one, two, c = mixed(d)
    d.config = replace(NO_DELAY, migration_policy=policy)
    d.restart()
    c.leave()
    assert set(d.group().members) == {one.id, two.id}
    for _ in range(3):
        one.beat()
        two.beat()
    assert sorted(one.held["t"] + two.held["t"]) == [0, 1, 2, 3, 4, 5]


def test_a_group_that_is_too_large_for_a_classic_one_stays() -> None:
    d = Talk()
    _, _, c = mixed(d)
    d.config = replace(NO_DELAY, group_size_max=1)
    d.restart()
    c.leave()
    assert len(d.group().members) == 2


def test_a_static_member_that_changes_its_protocol_back() -> None:
    d = Talk()
    a = Consumer(d, "a", instance_id="i")
    a.join()
    back = Embedded(d, instance_id="i")
    call = back.send_join()
    assert (call.error, call.join.generation) == (ErrorCode.NONE, 1)
    assert d.state() == "Stable"
    synced = d.sync(call.join.member_id, 1, instance_id="i")
    assert assigned(synced.sync.assignment) == {"t": (0, 1, 2, 3, 4, 5)}
    d.restart()
    assert d.heartbeat(call.join.member_id, 1, instance_id="i") is ErrorCode.NONE


def test_a_static_member_that_changes_its_topics_with_its_protocol() -> None:
    d = Talk()
    Consumer(d, "a", instance_id="i").join()
    Embedded(d, "u", instance_id="i").send_join()
    assert d.state() == "PreparingRebalance"


def test_a_group_stays_if_its_classic_record_would_be_too_large() -> None:
    """The log would refuse it, again after each reload of the shard."""
    d = Talk(config=replace(NO_DELAY, operation_bytes_max=2_000))
    one, _, c = mixed(d)
    large = (("range", subscription("t") + bytes(1_000)),)
    for _ in range(2):
        assert d.join(protocols=large, version=0).error is ErrorCode.NONE
    c.leave()
    assert key("g") in d.shard.durable.consumer_groups
    assert d.heartbeat(one.id, one.generation) is ErrorCode.REBALANCE_IN_PROGRESS
