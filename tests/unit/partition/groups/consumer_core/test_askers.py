from __future__ import annotations

from highwater.model.authorization import USER, Principal, TopicView
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import MemberMetadata
from highwater.partition.groups.consumer_core.askers import Asker, Askers
from tests.unit.partition.groups.dialogue import key

ALICE = TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=False)
BOB = TopicView(Principal(USER, "bob"), "10.0.0.1", visible_without_acl=False)
G = key("g")


def group_with(**regexes: str) -> ConsumerGroup:
    """{member id: expression}"""
    group = ConsumerGroup()
    for member_id, regex in regexes.items():
        group.set_metadata(member_id, MemberMetadata(topic_regex=regex))
    return group


def test_the_first_member_is_asked_for() -> None:
    askers, group = Askers(), group_with(a="x", b="x")
    assert askers.of(G, group, "x") is None
    assert askers.note(G, group, "x", "a", ALICE)
    assert not askers.note(G, group, "x", "a", ALICE)
    assert not askers.note(G, group, "x", "b", BOB)
    assert askers.of(G, group, "x") == Asker("a", ALICE)


def test_one_that_comes_with_other_rights_is_asked_for_again() -> None:
    askers, group = Askers(), group_with(a="x")
    askers.note(G, group, "x", "a", ALICE)
    assert askers.note(G, group, "x", "a", None)
    assert askers.of(G, group, "x") == Asker("a", None)


def test_another_one_follows_who_has_gone_or_reads_something_else() -> None:
    askers, group = Askers(), group_with(a="x", b="x", c="x")
    askers.note(G, group, "x", "a", ALICE)
    group.set_metadata("a", None)
    assert askers.of(G, group, "x") is None
    assert askers.note(G, group, "x", "b", BOB)
    group.set_metadata("b", MemberMetadata(topic_regex="y"))
    assert askers.note(G, group, "x", "c", None)


def test_what_nobody_subscribes_to_is_forgotten() -> None:
    askers, group = Askers(), group_with(a="x", b="y")
    askers.note(G, group, "x", "a", ALICE)
    askers.note(G, group, "y", "b", BOB)
    group.set_metadata("a", None)
    askers.forget(G, group)
    assert (askers.groups(), askers.of(G, group, "y")) == ([G], Asker("b", BOB))
    askers.forget(G, None)
    askers.forget(G, None)
    assert askers.groups() == []
