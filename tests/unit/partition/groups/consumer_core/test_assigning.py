"""The steps of members towards their targets, and the time that they have for them."""

from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.durable import CurrentRecord
from highwater.partition.groups.consumer.member import MemberState
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle

REBALANCE_MS = 60_000
"""Of the members here."""


def test_a_member_that_is_where_it_is_to_be_writes_nothing() -> None:
    d = Talk()
    members = [Consumer(d, "a"), Consumer(d, "b")]
    for member in members:
        member.join()
    settle(members)
    d.log.clear()
    settle(members)
    assert [record for record in d.log if isinstance(record, CurrentRecord)] == []


def a_member_that_is_to_give_up_partitions() -> tuple[Talk, Consumer, Consumer]:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    # It is told, and says that it still has them all.
    d.send("a", a.epoch, owned=a.held)
    assert d.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    return d, a, b


def test_who_does_not_give_up_partitions_in_time_is_removed() -> None:
    d, a, b = a_member_that_is_to_give_up_partitions()
    for _ in range(REBALANCE_MS // 10_000):
        assert d.send("a", a.epoch, owned=a.held).error is ErrorCode.NONE
        b.beat()
        d.wait(10_000)
    assert "a" not in d.group().members
    settle([b])
    assert len(b.partitions["t"]) == 6


def test_who_gives_them_up_has_no_deadline_any_more() -> None:
    d, a, b = a_member_that_is_to_give_up_partitions()
    a.held = d.group().members["a"].current.assigned
    for _ in range(2 * REBALANCE_MS // 10_000):
        settle([a, b], 1)
        d.wait(10_000)
    assert d.group().members.keys() == {"a", "b"}
    assert (len(a.partitions["t"]), len(b.partitions["t"])) == (3, 3)
