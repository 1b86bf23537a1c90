from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor
from tests.unit.partition.groups.consumer.assignors.groups import (
    by_id,
    member,
    named,
    topic,
    topics,
)

UNIFORM = UniformAssignor()
KNOWN = topics(topic("a", 4), topic("b", 4))


def members(*ids):
    return [member(one, "a", "b") for one in ids]


def test_each_topic_is_shared():
    assert named(UNIFORM.assign(members("m0", "m1"), KNOWN, {})) == {
        "m0": {"a": (0, 2), "b": (0, 2)},
        "m1": {"a": (1, 3), "b": (1, 3)},
    }


def test_a_member_that_joins_gets_the_last_ones_of_each_topic():
    alone = by_id(m0={"a": (0, 1, 2, 3), "b": (0, 1, 2, 3)})
    assert named(UNIFORM.assign(members("m0", "m1"), KNOWN, alone)) == {
        "m0": {"a": (0, 1), "b": (0, 1)},
        "m1": {"a": (2, 3), "b": (2, 3)},
    }


def test_who_has_one_more_keeps_it():
    previous = by_id(m0={"a": (0,)}, m1={"a": (1, 2)})
    known = topics(topic("a", 3))
    reading = [member("m0", "a"), member("m1", "a")]
    assert UNIFORM.assign(reading, known, previous) == previous


def test_more_members_than_partitions():
    known = topics(topic("a", 1))
    found = UNIFORM.assign([member("m0", "a"), member("m1", "a")], known, {})
    assert named(found) == {"m0": {"a": (0,)}, "m1": {}}


def test_far_partitions_are_given_up_first_and_close_ones_taken():
    known = topics(topic("a", 4, "x", "y", "x y", "y"))
    reading = [member("m0", "a", rack="x"), member("m1", "a", rack="y")]
    alone = by_id(m0={"a": (0, 1, 2, 3)})
    expected = {"m0": {"a": (0, 2)}, "m1": {"a": (1, 3)}}
    assert named(UNIFORM.assign(reading, known, alone)) == expected
    assert named(UNIFORM.assign(reading, known, {})) == expected
    swapped = by_id(m0={"a": (1, 3)}, m1={"a": (0, 2)})
    assert UNIFORM.assign(reading, known, swapped) == swapped, "racks move nothing"
