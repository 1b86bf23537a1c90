import pytest

from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor
from tests.unit.partition.groups.consumer.assignors.groups import (
    by_id,
    check,
    member,
    named,
    size,
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


@pytest.mark.parametrize("mixed", [False, True])
def test_large_groups_in_short_steps(mixed):
    """Steps, not times: those of a busy machine tell nothing."""
    names = [f"t{one:03}" for one in range(50)]
    known = topics(*(topic(name, 40) for name in names))
    members = [
        member(f"m{one}", *(names[one % 10 :] if mixed else names), rack="x") for one in range(200)
    ]
    steps, count = UNIFORM.assigning(members, known, {}), 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as stop:
        found = stop.value
    check(members, known, found)
    assert {size(own) for own in found.values()} == {10}
    assert count >= 5
