from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.durable import (
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetRecord,
)
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk


def test_a_member_that_leaves_takes_its_records_with_it() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    d.log.clear()
    a.leave()
    assert [type(record) for record in d.log] == [
        CurrentRecord,
        TargetRecord,
        MemberRecord,
        GroupEpochRecord,
    ]
    assert all(record.value is None for record in d.log[:3])


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.leave()
    assert d.group().epoch == 2
    assert d.group().metadata_hash == 0
    d.restart()
    assert d.group().epoch == 2
    assert a.join().epoch == 3


def test_a_static_member_leaves_for_good() -> None:
    d = Talk()
    a = Consumer(d, "a", instance_id="i")
    a.join()
    assert a.leave(-1).error is ErrorCode.NONE
    assert not d.group().members
    assert not d.group().static_members
