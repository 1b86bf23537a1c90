import pytest

from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.readers import (
    comparing_subscriptions,
    finding_readers,
)
from tests.unit.partition.groups.consumer.assignors.groups import member, topic, topic_id, topics

KNOWN = topics(topic("a", 1), topic("b", 1), topic("c", 1))


@pytest.mark.parametrize(
    ("members", "alike"),
    [
        ([member("m0")], True),
        ([member("m0", "a", "b"), member("m1", "b", "a")], True),
        ([member("m0", "a"), member("m1", "a", "b")], False),
        ([member("m0", "a"), member("m1", "a"), member("m2")], False),
    ],
)
def test_members_that_read_the_same(members, alike):
    assert finish(comparing_subscriptions(members, Pace())) is alike


def test_readers_of_each_topic():
    members = [member("m0", "a", "b"), member("m1", "b", "gone"), member("m2", "a")]
    readers = finish(finding_readers(members, KNOWN, alike=False, pace=Pace()))
    assert readers == {topic_id("a"): [0, 2], topic_id("b"): [0, 1]}


def test_readers_that_are_alike():
    members = [member("m0", "a", "gone"), member("m1", "a", "gone")]
    readers = finish(finding_readers(members, KNOWN, alike=True, pace=Pace()))
    assert readers == {topic_id("a"): range(2)}


def test_many_are_compared_and_listed_in_steps():
    names = [f"t{one}" for one in range(1_000)]
    members = [member(f"m{one}", *names) for one in range(20)]
    known = topics(*(topic(name, 1) for name in names))
    assert len(list(comparing_subscriptions(members, Pace()))) == 3
    assert len(list(finding_readers(members, known, alike=False, pace=Pace()))) == 4
