from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.owners import NOBODY, Owners, Partition
from highwater.partition.groups.consumer.assignors.pace import Pace
from tests.unit.partition.groups.consumer.assignors.groups import (
    by_id,
    member,
    named,
    topic,
    topic_id,
)

A, B = topic_id("a"), topic_id("b")


def owners_of(*members):
    return Owners(members, [topic("b", 1), topic("a", 3, "x", "y", "x y")], Pace())


def test_topics_stand_in_the_order_of_their_names():
    owners = owners_of(member("m0", "a", "b"))
    assert list(owners.topics) == list(owners.of) == [A, B]
    assert finish(owners.free()) == [
        Partition(A, 0),
        Partition(A, 1),
        Partition(A, 2),
        Partition(B, 0),
    ]


def test_members_keep_what_they_still_read():
    owners = owners_of(member("m0", "a"), member("m1", "a", "b"))
    previous = by_id(m0={"a": (0, 3), "b": (0,)}, m1={"a": (0, 2), "gone": (0,)}, left={"a": (1,)})
    finish(owners.keep(previous))
    assert owners.of == {A: [0, NOBODY, 1], B: [NOBODY]}
    assert owners.sizes == [1, 1]
    assert finish(owners.free_of(A)) == [Partition(A, 1)]


def test_partitions_change_hands():
    owners = owners_of(member("m0", "a", "b"), member("m1", "a", "b"))
    owners.give([(Partition(A, 0), 0), (Partition(A, 1), 0), (Partition(B, 0), 0)])
    owners.give([(Partition(A, 1), 1)])
    owners.take(B, 0)
    owners.take(B, 0)
    assert owners.sizes == [1, 1]
    owners.give([(Partition(A, 2), 1), (Partition(B, 0), 1)])
    assert named(finish(owners.result())) == {
        "m0": {"a": (0,)},
        "m1": {"a": (1, 2), "b": (0,)},
    }


def test_close_is_a_replica_in_the_members_rack():
    owners = owners_of(member("m0", rack="x"), member("m1"))
    assert [owners.is_local(A, partition, 0) for partition in range(3)] == [True, False, True]
    assert not owners.is_local(B, 0, 0), "racks are not known"
    assert not owners.is_local(A, 0, 1)
