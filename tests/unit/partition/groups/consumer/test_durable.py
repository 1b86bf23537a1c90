"""Records lead to the same groups live, replayed, from a snapshot, and in any order."""

from __future__ import annotations

import random

from highwater.partition.groups.consumer.durable import (
    ConsumerGroups,
    CurrentRecord,
    GroupEpoch,
    GroupEpochRecord,
    SubscriptionMetadataRecord,
    TargetRecord,
    records_of,
    replay,
    tombstones_of,
)
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, holding
from tests.unit.partition.groups.dialogue import key


def talk_of_three() -> Talk:
    d = Talk()
    for member in (
        Consumer(d, "a", instance_id="i"),
        Consumer(d, "b", topic_regex="u"),
        Consumer(d, "c"),
    ):
        member.join()
    d.wait(10)
    d.send("a", 1, instance_id="i")
    return d


def same(one: ConsumerGroups, other: ConsumerGroups) -> bool:
    return {k: list(records_of(k, g)) for k, g in one.items()} == {
        k: list(records_of(k, g)) for k, g in other.items()
    }


def test_a_snapshot_leads_to_the_same_group() -> None:
    d = talk_of_three()
    groups: ConsumerGroups = {}
    for record in d.shard.capture().records():
        replay(groups, record)  # type: ignore[arg-type]
    assert same(groups, d.shard.durable.consumer_groups)
    assert groups[key("g")].owners == d.group().owners


def test_the_last_record_of_each_key_counts_in_whatever_order() -> None:
    d = talk_of_three()
    records = list(records_of(key("g"), d.group()))
    for seed in range(5):
        shuffled = records.copy()
        random.Random(seed).shuffle(shuffled)
        groups: ConsumerGroups = {}
        for record in shuffled:
            replay(groups, record)
        group = groups[key("g")]
        assert (group.members, group.targets) == (d.group().members, d.group().targets)
        assert (group.owners, group.static_members) == (d.group().owners, {"i": "a"})


def test_tombstones_leave_nothing() -> None:
    d = talk_of_three()
    groups = d.shard.capture().consumer_groups
    group = groups[key("g")]
    records = list(tombstones_of(key("g"), group.copy()))
    for record in records[:-1]:
        replay(groups, record)
    assert (group.members, group.targets, group.regexes, group.owners) == ({}, {}, {}, {})
    replay(groups, records[-1])
    assert groups == {}
    for record in records:
        replay(groups, record)
    assert groups == {}


def test_a_captured_copy_stays() -> None:
    d = talk_of_three()
    before = d.shard.capture()
    kept = list(before.records())
    d.topics.set("t", 9)
    d.topics_change()
    d.send("c", -1)
    assert list(before.records()) == kept


def test_a_record_of_kafka_before_4_1_goes_with_the_next_epoch() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    d.log.append(SubscriptionMetadataRecord(key("g"), b"\x00\x00\x01\x00"))
    d.restart()
    assert d.group().subscription_metadata is not None
    d.topics.set("t", 9)
    d.topics_change()
    assert d.group().subscription_metadata is None
    assert SubscriptionMetadataRecord(key("g"), None) in d.log


def test_records_about_groups_that_are_gone() -> None:
    groups: ConsumerGroups = {}
    replay(groups, CurrentRecord(key("g"), "m", None))
    replay(groups, TargetRecord(key("g"), "m", None))
    replay(groups, GroupEpochRecord(key("g"), None))
    assert groups == {}
    replay(groups, TargetRecord(key("g"), "m", holding(t=(1,))))
    replay(groups, GroupEpochRecord(key("g"), GroupEpoch(3, 0)))
    assert groups[key("g")].target("m") == holding(t=(1,))
