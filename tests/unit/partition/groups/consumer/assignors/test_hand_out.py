from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.hand_out import hand_out
from highwater.partition.groups.consumer.assignors.owners import Owners
from highwater.partition.groups.consumer.assignors.pace import Pace
from tests.unit.partition.groups.consumer.assignors.groups import member, named, topic


def handed_out(members, topics, *room):
    owners = Owners(members, topics, Pace())
    free = finish(owners.free())
    finish(hand_out(owners, free, dict(enumerate(room))))
    return named(finish(owners.result()))


def test_members_take_turns():
    members = [member("m0"), member("m1"), member("m2")]
    assert handed_out(members, [topic("a", 3), topic("b", 2)], 3, 2, 0) == {
        "m0": {"a": (0, 2), "b": (1,)},
        "m1": {"a": (1,), "b": (0,)},
        "m2": {},
    }


def test_close_members_first_those_with_few_choices_before():
    members = [member("m0", rack="x"), member("m1", rack="y"), member("m2")]
    topics = [topic("a", 3, "x y", "x", "z"), topic("b", 1)]
    assert handed_out(members, topics, 1, 1, 2) == {
        "m0": {"a": (1,)},
        "m1": {"a": (0,)},
        "m2": {"a": (2,), "b": (0,)},
    }


def test_racks_without_room_are_passed_over():
    members = [member("m0", rack="x"), member("m1", rack="y")]
    assert handed_out(members, [topic("a", 3, "x", "x", "x")], 1, 2) == {
        "m0": {"a": (0,)},
        "m1": {"a": (1, 2)},
    }
