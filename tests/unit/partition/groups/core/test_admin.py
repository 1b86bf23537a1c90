"""Listing, describing and deleting groups."""

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.partition.groups.dialogue import Dialogue, key


def listed(d: Dialogue, states=(), types=()):
    return {
        (g.group_id, g.protocol_type, g.state)
        for g in d.shard.list_groups(DEFAULT_INSTANCE, list(states), list(types))
    }


def delete(d: Dialogue, group: str = "g") -> ErrorCode:
    error = d.shard.delete_group(key(group), d.moment)
    d.settle()
    return error


def test_list_groups_with_filters():
    d = Dialogue()
    d.stable_pair()
    d.commit({("t", 0): 1}, group="simple")
    stable, simple = ("g", "consumer", "Stable"), ("simple", "", "Empty")
    assert listed(d) == {stable, simple}
    assert listed(d, states=["stable"]) == {stable}
    assert listed(d, states=["EMPTY", "Dead"]) == {simple}
    assert listed(d, types=["CLASSIC"]) == {stable, simple}
    assert listed(d, types=["consumer"]) == set()


def test_describe_shows_metadata_and_assignment_only_while_stable():
    d = Dialogue()
    assert d.shard.describe_group(key("g")) is None
    leader, follower = d.stable_pair()
    group = d.shard.describe_group(key("g"))
    assert (group.state, group.protocol_type, group.protocol) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.client_id, m.client_host) for m in group.members] == [
        (leader, "one", "/127.0.0.1"),
        (follower, "two", "/127.0.0.1"),
    ]
    assert [(m.metadata, m.assignment) for m in group.members] == [(b"meta", b"A"), (b"meta", b"B")]
    d.join(leader)
    group = d.shard.describe_group(key("g"))
    assert (group.state, group.protocol) == ("PreparingRebalance", "")
    assert [(m.metadata, m.assignment) for m in group.members] == [(b"", b""), (b"", b"")]


def test_delete_group():
    d = Dialogue()
    assert delete(d) is ErrorCode.GROUP_ID_NOT_FOUND
    leader, follower = d.stable_pair()
    d.commit({("t", 0): 1}, leader, 1)
    assert delete(d) is ErrorCode.NON_EMPTY_GROUP
    d.leave(leader, follower)
    assert delete(d) is ErrorCode.NONE
    assert d.shard.groups == {}
    assert d.committed("t", 0) is None
    d.restart()
    assert d.shard.groups == {}
    assert d.join(leader).error is ErrorCode.UNKNOWN_MEMBER_ID
