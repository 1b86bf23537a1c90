from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.owners import Owners
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor
from highwater.partition.groups.consumer.assignors.uniform_mixed import assign_mixed
from tests.unit.partition.groups.consumer.assignors.groups import (
    by_id,
    member,
    named,
    size,
    topic,
    topic_id,
    topics,
)

UNIFORM = UniformAssignor()


def test_who_reads_more_takes_what_others_cannot():
    members = [member("m0", "a"), member("m1", "a", "b"), member("m2", "a", "b")]
    known = topics(topic("a", 4), topic("b", 2))
    found = UNIFORM.assign(members, known, {})
    assert {size(own) for own in found.values()} == {2}


def test_partitions_move_from_those_that_have_more():
    members = [member("m0", "a"), member("m1", "a"), member("m2", "b")]
    known = topics(topic("a", 4), topic("b", 1))
    previous = by_id(m0={"a": (0, 1, 2, 3)}, m2={"b": (0,)})
    assert named(UNIFORM.assign(members, known, previous)) == {
        "m0": {"a": (0, 1)},
        "m1": {"a": (2, 3)},
        "m2": {"b": (0,)},
    }


def test_a_topic_that_is_no_longer_read_is_given_to_another():
    members = [member("m0", "a"), member("m1", "a", "b")]
    known = topics(topic("a", 1), topic("b", 1))
    previous = by_id(m0={"b": (0,)}, m1={"a": (0,)})
    found = UNIFORM.assign(members, known, previous)
    assert named(found) == {"m0": {"a": (0,)}, "m1": {"b": (0,)}}


def test_far_partitions_move_first_and_to_members_that_are_close():
    known = topics(topic("a", 6, "x", "x", "y", "y", "z", "z"), topic("b", 0))
    members = [
        member("m0", "a", "b", rack="x"),
        member("m1", "a", rack="z"),
        member("m2", "a", rack="y"),
    ]
    previous = by_id(m0={"a": (0, 1, 2, 3, 4, 5)})
    assert named(UNIFORM.assign(members, known, previous)) == {
        "m0": {"a": (0, 1)},
        "m1": {"a": (4, 5)},
        "m2": {"a": (2, 3)},
    }


def test_each_round_looks_through_the_owners_of_a_topic_a_few_times():
    """Not once for every member that gives: a thousand members may share ten thousand partitions."""
    looks = []

    class Counted(list):
        def __iter__(self):
            looks.append(1)
            return super().__iter__()

    had, new = [f"m{n:02}" for n in range(40)], [f"n{n:02}" for n in range(40)]
    members = [member(one, "a") for one in [*had, *new]]
    owners = Owners(members, [topic("a", 400)], Pace())
    finish(
        owners.keep({one: {topic_id("a"): tuple(range(n, 400, 40))} for n, one in enumerate(had)})
    )
    owners.of[topic_id("a")] = Counted(owners.of[topic_id("a")])
    finish(assign_mixed(owners, {topic_id("a"): range(80)}))
    assert owners.sizes == [5] * 80
    assert len(looks) < 10
