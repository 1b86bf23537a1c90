from __future__ import annotations

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.embedded_members import Embedded
from tests.unit.partition.groups.topics import topic_id


def listed(d: Talk, states: list[str], types: list[str]) -> list[tuple[str, str, str]]:
    found = d.shard.list_groups(DEFAULT_INSTANCE, states, types)
    return [(g.group_id, g.group_type, g.state) for g in found]


def test_groups_of_both_types_are_listed() -> None:
    d = Talk()
    Consumer(d, "a").join()
    d.commit({("t", 0): 1}, group="simple")
    mine, simple = ("g", "consumer", "Stable"), ("simple", "classic", "Empty")
    assert listed(d, [], []) == [simple, mine]
    assert listed(d, [], ["Consumer"]) == [mine]
    assert listed(d, [], ["classic"]) == [simple]
    assert listed(d, ["stable"], []) == [mine]
    assert listed(d, ["reconciling"], ["consumer"]) == []
    assert not list(d.shard.list_groups(InstanceId("other"), [], []))


def test_a_description_has_both_assignments() -> None:
    d = Talk()
    a = Consumer(d, "a", rack_id="r")
    a.join()
    Embedded(d).join()
    described = d.shard.describe_consumer_group(key("g"))
    assert described is not None
    assert (described.state, described.epoch, described.target_epoch) == ("Reconciling", 2, 2)
    assert described.assignor == "uniform"
    first, second = described.members
    assert (first.member_id, first.epoch, first.metadata.rack_id) == ("a", 1, "r")
    assert first.assignment == ((topic_id("t"), "t", (0, 1, 2, 3, 4, 5)),)
    assert len(first.target[0][2]) == 3
    assert second.metadata.classic is not None


def test_deleted_topics_are_left_out() -> None:
    d = Talk()
    Consumer(d, "a").join()
    d.topics.delete("t")
    described = d.shard.describe_consumer_group(key("g"))
    assert described is not None
    assert described.members[0].assignment == ()


def test_other_groups_are_not_described() -> None:
    d = Talk()
    d.commit({("t", 0): 1})
    assert d.shard.describe_consumer_group(key("g")) is None
    assert d.shard.describe_consumer_group(key("x")) is None
