from highwater.partition.groups.consumer.assignors.range import RangeAssignor
from tests.unit.partition.groups.consumer.assignors.groups import member, named, topic, topics

RANGE = RangeAssignor()


def test_topics_with_as_many_partitions_go_together():
    members = [member("m1", "a", "b"), member("m0", "a", "b")]
    assert named(RANGE.assign(members, topics(topic("a", 3), topic("b", 3)), {})) == {
        "m0": {"a": (0, 1), "b": (0, 1)},
        "m1": {"a": (2,), "b": (2,)},
    }


def test_static_members_come_first_and_keep_their_places_with_other_member_ids():
    known = topics(topic("a", 5))
    members = [
        member("m0", "a"),
        member("m1", "a", instance="y"),
        member("m2", "a", instance="x"),
    ]
    assert named(RANGE.assign(members, known, {})) == {
        "m2": {"a": (0, 1)},
        "m1": {"a": (2, 3)},
        "m0": {"a": (4,)},
    }
    restarted = [
        member("m0", "a"),
        member("m7", "a", instance="y"),
        member("m9", "a", instance="x"),
    ]
    assert named(RANGE.assign(restarted, known, {})) == {
        "m9": {"a": (0, 1)},
        "m7": {"a": (2, 3)},
        "m0": {"a": (4,)},
    }


def test_members_that_read_different_topics():
    members = [member("m0", "a"), member("m1", "a", "b"), member("m2", "b"), member("m3")]
    known = topics(topic("a", 3), topic("b", 1), topic("unread", 2))
    assert named(RANGE.assign(members, known, {})) == {
        "m0": {"a": (0, 1)},
        "m1": {"a": (2,), "b": (0,)},
        "m2": {},
        "m3": {},
    }


def test_nobody_and_nothing():
    assert RANGE.assign([], {}, {}) == {}
    assert RANGE.assign([member("m0", "gone"), member("m1", "gone")], {}, {}) == {
        "m0": {},
        "m1": {},
    }
