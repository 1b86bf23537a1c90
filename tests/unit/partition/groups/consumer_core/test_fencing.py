from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE
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


def configured(**groups: str) -> ClusterImage:
    """Groups with these session timeouts."""
    return ClusterImage(
        revision=1,
        cluster_id="c",
        group_configs={
            GroupConfigKey(DEFAULT_INSTANCE, name): {"consumer.session.timeout.ms": timeout_ms}
            for name, timeout_ms in groups.items()
        },
    )


def test_a_session_is_as_long_as_the_groups_config_says_at_each_heartbeat() -> None:
    d = Talk()
    d.configs.follow(configured(g="60000"))
    a = Consumer(d, "a")
    a.join()
    d.wait(59_999)
    assert "a" in d.group().members
    d.configs.follow(configured(h="60000"))
    a.beat()
    d.wait(44_999)
    assert "a" in d.group().members
    d.wait(1)
    assert not d.group().members


def test_a_new_coordinator_begins_with_the_groups_session_timeout() -> None:
    d = Talk()
    Consumer(d, "a").join()
    d.configs.follow(configured(g="60000"))
    d.restart()
    d.wait(59_999)
    assert "a" in d.group().members
    d.wait(1)
    assert not d.group().members
