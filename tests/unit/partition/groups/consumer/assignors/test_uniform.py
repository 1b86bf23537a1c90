import pytest

from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor
from tests.unit.partition.groups.consumer.assignors.groups import (
    by_id,
    check,
    member,
    named,
    topic,
    topics,
)

UNIFORM = UniformAssignor()


def test_nobody_and_nothing():
    assert UNIFORM.assign([], {}, {}) == {}
    members = [member("m0", "gone"), member("m1", "gone")]
    assert UNIFORM.assign(members, {}, by_id(m0={"gone": (1,)})) == {"m0": {}, "m1": {}}
    different = [member("m0", "gone"), member("m1")]
    assert UNIFORM.assign(different, topics(topic("a", 1)), {}) == {"m0": {}, "m1": {}}


@pytest.mark.parametrize("other", [("a", "b"), ("a", "c")])
def test_members_and_topics_that_are_gone_leave_nothing_behind(other):
    members = [member("m0", "a", "b"), member("m1", *other)]
    known = topics(topic("a", 2), topic("b", 2), topic("c", 1))
    previous = by_id(
        m0={"a": (0, 5), "gone": (0,), "c": (0,)},
        m1={"a": (0, 1)},
        left={"b": (0, 1)},
    )
    found = UNIFORM.assign(members, known, previous)
    check(members, known, found)
    assert named(found)["m0"]["a"] == (0,)
    assert named(found)["m1"]["a"] == (1,)
