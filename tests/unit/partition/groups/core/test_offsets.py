"""Commits, fetches, deletions and expiry of offsets."""

import struct

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.values import CommitRequest, GroupKey, OffsetToCommit
from tests.unit.partition.groups.dialogue import NO_DELAY, WALL_MS, Dialogue, key

OK = [ErrorCode.NONE]
WEEK_MS = NO_DELAY.offsets_retention_ms
CHECK_MS = NO_DELAY.offsets_retention_check_ms


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription, version 1."""
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


def test_member_commits_and_everything_comes_back():
    d = Dialogue()
    leader, _ = d.stable_pair()
    assert d.commit({("t", 0): 42}, leader, 1, metadata="é" * 10, leader_epoch=7) == OK
    value = d.shard.committed_offset(key("g"), "t", 0)
    assert value == (42, 7, "é" * 10, WALL_MS, -1)
    assert d.shard.committed_by_topic(key("g")) == {"t": [(0, value)]}
    assert d.committed("t", 1) is None
    assert d.committed("t", 0, group="other") is None


def test_simple_commit_needs_a_group_without_members():
    d = Dialogue()
    assert d.commit({("t", 0): 1}) == OK
    assert d.commit({("t", 0): 0}) == OK, "an admin may set an offset back"
    assert d.state() == "Empty"
    assert d.commit({("t", 0): 2}, group="") == OK, "the empty group id is a simple consumer's"
    d.stable_pair()
    assert d.commit({("t", 0): 3}) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert d.committed("t", 0) == 0


def test_generation_without_a_group_is_illegal():
    assert Dialogue().commit({("t", 0): 1}, "m", 3) == [ErrorCode.ILLEGAL_GENERATION]


def test_commit_keeps_the_member_alive():
    d = Dialogue()
    leader, follower = d.stable_pair()
    for _ in range(4):
        d.wait(9_000)
        assert d.commit({("t", 0): 1}, leader, 1) == OK
        d.heartbeat(follower, 1)


def test_commit_during_a_rebalance():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.join(leader)
    assert d.commit({("t", 0): 5}, follower, 1) == OK, "the last commit before rejoining"
    d.join(follower)
    assert d.commit({("t", 0): 6}, follower, 2) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert d.commit({("t", 0): 6}, follower, 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert d.committed("t", 0) == 5


def test_metadata_too_large_fails_its_partition_alone():
    d = Dialogue()
    request = CommitRequest(
        key=key("g"),
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=(
            OffsetToCommit("t", 0, 1, -1, "x" * 4_097),
            OffsetToCommit("t", 1, 1, -1, "x" * 4_096),
        ),
    )
    assert d.shard.commit_offsets(request, d.moment) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    ]
    assert d.committed("t", 0) is None
    assert d.committed("t", 1) == 1


def test_refused_commit_to_a_new_group_leaves_nothing_behind():
    d = Dialogue()
    d.commit({("t", 0): 1}, metadata="x" * 5_000)
    assert d.shard.groups == {}


def test_limits():
    d = Dialogue(GroupConfig(operation_bytes_max=200, offsets_per_group_max=2, groups_max=1))
    too_large = [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert d.commit({("t", 0): 1}, metadata="x" * 150) == too_large
    assert d.commit({("t", 0): 1}) == OK
    assert d.commit({("t", 1): 1}) == OK
    assert d.commit({("t", 2): 1}) == too_large
    assert d.commit({("t", 0): 2, ("t", 1): 2}) == OK * 2, "they are there already"
    assert d.commit({("t", 0): 1}, group="other") == [ErrorCode.POLICY_VIOLATION]


def test_a_shard_that_others_have_filled_takes_what_is_there_already():
    d = Dialogue(GroupConfig(offsets_max=3))
    assert d.commit({("t", 0): 1, ("t", 1): 1}, group="big") == OK * 2
    assert d.commit({("t", 0): 1}, group="small") == OK
    assert d.commit({("t", 0): 2}, group="small") == OK
    assert d.commit({("t", 1): 1}, group="small") == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


def test_instances_do_not_see_each_other():
    d = Dialogue()
    other = GroupKey(InstanceId("tenant"), "g")
    request = CommitRequest(
        key=other,
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit("t", 0, 9, -1, ""),),
    )
    d.shard.commit_offsets(request, d.moment)
    assert d.committed("t", 0) is None
    assert list(d.shard.list_groups(DEFAULT_INSTANCE, [], [])) == []
    assert [g.group_id for g in d.shard.list_groups(InstanceId("tenant"), [], [])] == ["g"]


# -- deletion -----------------------------------------------------------------------------------


def delete(d: Dialogue, *slots: tuple[str, int], group: str = "g"):
    result = d.shard.delete_offsets(key(group), list(slots), d.moment)
    d.settle()
    return result


def test_delete_offsets_spares_what_is_subscribed():
    d = Dialogue()
    d.commit({("read", 0): 1, ("old", 0): 2})
    member = d.new_member(protocols=(("range", subscription("read")),))
    d.run_due()
    d.sync(member.join.member_id, 1, {})
    assert delete(d, ("read", 0), ("old", 0), ("old", 9)) == (
        ErrorCode.NONE,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE],
    )
    assert (d.committed("read", 0), d.committed("old", 0)) == (1, None)


def test_delete_offsets_refusals():
    d = Dialogue()
    assert delete(d, ("t", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    d.new_member(protocol_type="connect")
    assert delete(d, ("t", 0)) == (ErrorCode.NON_EMPTY_GROUP, [])
    d.new_member(group="odd", protocols=(("range", b"not a subscription"),))
    error, errors = delete(d, ("t", 0), group="odd")
    assert (error, errors) == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])


def test_deleting_the_last_offset_of_a_simple_group_forgets_it():
    d = Dialogue()
    d.commit({("t", 0): 1})
    delete(d, ("t", 0))
    assert d.shard.groups == {}


def test_a_consumer_of_thousands_of_partitions_commits_them_together():
    d = Dialogue()
    name = "orders.of-all-regions.with-everything.that-was.ever-sold.v2"
    offsets = {(name, partition): 1 for partition in range(6_000)}
    assert d.commit(offsets, group="a-reader-of-everything") == [ErrorCode.NONE] * 6_000
    beyond = {("ü" * 60, partition): 1 for partition in range(6_000)}
    assert set(d.commit(beyond)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_metadata_that_is_too_long_fails_its_partition_alone_whatever_its_length():
    d = Dialogue()
    offsets = {("t", partition): 1 for partition in range(40)}
    refused = d.commit(offsets, metadata="x" * 32_767)
    assert refused == [ErrorCode.OFFSET_METADATA_TOO_LARGE] * 40


def test_offsets_of_deleted_topics_are_removed():
    d = Dialogue()
    d.commit({("t", 0): 1, ("u", 0): 2})
    d.shard.topics_deleted(DEFAULT_INSTANCE, frozenset({"t"}), d.moment)
    d.settle()
    assert (d.committed("t", 0), d.committed("u", 0)) == (None, 2)
    d.restart()
    assert (d.committed("t", 0), d.committed("u", 0)) == (None, 2)


# -- expiry -------------------------------------------------------------------------------------


def test_simple_offsets_expire_a_week_after_their_commit():
    d = Dialogue()
    d.commit({("t", 0): 1})
    d.wait(WEEK_MS - CHECK_MS)
    d.commit({("t", 1): 2})
    d.wait(CHECK_MS)
    assert (d.committed("t", 0), d.committed("t", 1)) == (None, 2)
    d.wait(WEEK_MS)
    assert d.shard.groups == {}
    d.restart()
    assert d.shard.groups == {}


def test_offsets_of_a_group_expire_a_week_after_it_became_empty():
    d = Dialogue()
    leader, follower = d.stable_pair()
    d.commit({("t", 0): 1}, leader, 1)
    d.leave(leader, follower)
    d.wait(WEEK_MS - 2 * CHECK_MS)
    assert d.committed("t", 0) == 1
    d.restart()
    d.wait(3 * CHECK_MS)
    assert d.committed("t", 0) is None
    assert d.state() is None, "the empty group goes with its last offset"
    assert d.shard.durable.images == {}


def test_nothing_expires_while_the_groups_subscription_is_unknown():
    d = Dialogue()
    member = d.new_member(protocol_type="connect", session_ms=1_800_000)
    d.run_due()
    member_id = member.join.member_id
    d.sync(member_id, 1, {})
    d.commit({("t", 0): 1}, member_id, 1)
    for _ in range(1 + WEEK_MS // 1_700_000):
        d.wait(1_700_000)
        assert d.heartbeat(member_id, 1) is ErrorCode.NONE
    assert d.committed("t", 0) == 1


def test_living_consumers_lose_only_what_they_no_longer_read():
    d = Dialogue()
    d.commit({("read", 0): 1, ("old", 0): 2})
    member = d.new_member(protocols=(("range", subscription("read")),), session_ms=1_800_000)
    d.run_due()
    member_id = member.join.member_id
    d.sync(member_id, 1, {})
    for _ in range(1 + WEEK_MS // 1_700_000):
        d.wait(1_700_000)
        assert d.heartbeat(member_id, 1) is ErrorCode.NONE
    assert (d.committed("read", 0), d.committed("old", 0)) == (1, None)


def test_retention_time_of_old_clients():
    d = Dialogue()
    d.commit({("t", 0): 1}, retention_ms=1_000)
    d.wait(CHECK_MS)
    assert d.committed("t", 0) is None


@pytest.mark.parametrize("groups", [200])
def test_expiry_of_many_groups_is_cut_into_slices(groups):
    d = Dialogue()
    for n in range(groups):
        d.commit({("t", 0): 1}, group=f"g{n}", retention_ms=1)
    d.wait(CHECK_MS)
    left = len(d.shard.groups)
    assert left == groups - d.config.expiry_groups_per_slice
    d.wait(100)
    assert d.shard.groups == {}
