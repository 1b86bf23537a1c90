from __future__ import annotations

from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.group_state import ConsumerGroupState
from highwater.partition.groups.consumer.member import (
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.topics import topic_id


def group_with(**assignors: str | None) -> ConsumerGroup:
    group = ConsumerGroup()
    for member_id, assignor in assignors.items():
        group.set_metadata(member_id, MemberMetadata(assignor=assignor))
    return group


def test_the_state_follows_from_members_and_epochs() -> None:
    group = ConsumerGroup()
    assert group.state is ConsumerGroupState.EMPTY
    group.set_metadata("a", MemberMetadata())
    group.epoch = 1
    assert group.state is ConsumerGroupState.ASSIGNING
    group.target_epoch = 1
    assert group.state is ConsumerGroupState.RECONCILING
    group.set_current("a", CurrentAssignment(epoch=1, assigned=NOTHING, revoking=NOTHING))
    assert group.state is ConsumerGroupState.STABLE


def test_most_members_choose_the_assignor() -> None:
    assert group_with(a=None).preferred_assignor() is None
    assert group_with(a="uniform", b="range", c=None).preferred_assignor() == "range"
    assert group_with(a="uniform", b="range", c="uniform").preferred_assignor() == "uniform"


def test_partitions_belong_to_who_got_them_last() -> None:
    group = group_with(a=None, b=None)
    both = CurrentAssignment(assigned=holding(t=(0,)), revoking=holding(t=(1,)))
    group.set_current("a", both)
    group.set_current("b", CurrentAssignment(assigned=holding(t=(1,)), revoking=NOTHING))
    group.set_current("a", None)
    assert group.owners == {(topic_id("t"), 1): "b"}
    group.set_metadata("b", None)
    assert group.owners == {}


def test_topics_by_names_and_expressions() -> None:
    group = ConsumerGroup()
    group.set_metadata("a", MemberMetadata(topic_names=frozenset("t"), topic_regex="x"))
    group.regexes["x"] = ResolvedRegex(topics=frozenset("uv"), version=1, timestamp_ms=1)
    assert group.topics_of(group.members["a"].metadata) == frozenset("tuv")
    assert group.subscribed_topics() == frozenset("tuv")
    assert group.regex_readers == {"x": 1}


def test_an_instance_moves_to_another_member() -> None:
    group = ConsumerGroup()
    group.set_metadata("a", MemberMetadata(instance_id="i"))
    group.set_metadata("b", MemberMetadata(instance_id="i"))
    group.set_metadata("a", None)
    member = group.static_member("i")
    assert member is not None
    assert member.member_id == "b"
    assert group.static_member(None) is None
