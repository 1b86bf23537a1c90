from __future__ import annotations

from dataclasses import replace

from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.durable import MemberRecord, TargetRecord
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle
from tests.unit.partition.groups.dialogue import NO_DELAY, key


def test_only_targets_that_change_are_written() -> None:
    d = Talk()
    members = [Consumer(d, "a", "t"), Consumer(d, "b", "u")]
    for member in members:
        member.join()
    settle(members)
    d.log.clear()
    d.topics.set("u", 5)
    d.topics_change()
    settle(members)
    assert [r.member_id for r in d.log if isinstance(r, TargetRecord)] == ["b"]


def test_an_assignor_that_is_gone_gives_way_to_the_default() -> None:
    d = Talk(config=replace(NO_DELAY, consumer_assignors=("uniform",)))
    a = Consumer(d, "a", assignor="range")
    a.join()
    shard = GroupCoordinatorShard(
        d.config,
        lambda: "x",
        lambda state: ConsumerShard(
            state, d.topics, {"uniform": ASSIGNORS["uniform"]}, d.configs.of
        ),
    )
    for record in d.log:
        shard.replay(record)
    shard.activate(d.moment)
    d.shard = shard
    d.topics.set("t", 7)
    d.topics_change()
    a.beat()
    assert len(a.partitions["t"]) == 7
    assert isinstance(d.log[0], MemberRecord)
    described = shard.describe_consumer_group(key("g"))
    assert described is not None
    assert described.assignor == "range"
