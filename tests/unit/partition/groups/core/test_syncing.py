"""SyncGroup as conversations."""

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import GroupConfig
from tests.unit.partition.groups.dialogue import Dialogue, key


def joined_pair(d: Dialogue) -> tuple[str, str]:
    one, two = d.new_member(client="one"), d.new_member(client="two")
    d.run_due()
    return one.join.member_id, two.join.member_id


def test_followers_wait_for_the_leader_and_each_gets_its_own_part():
    d = Dialogue()
    leader, follower = joined_pair(d)
    waiting = d.sync(follower, 1)
    assert waiting.parked
    answered = d.sync(leader, 1, {leader: b"A", follower: b"B", "stranger": b"X"})
    assert answered.sync.assignment == b"A"
    assert waiting.sync.assignment == b"B"
    assert waiting.sync.protocol == "range"
    assert waiting.sync.protocol_type == "consumer"
    assert answered.after_commit
    assert waiting.after_commit
    assert d.state() == "Stable"


def test_late_sync_in_a_stable_group_gets_the_assignment():
    d = Dialogue()
    leader, follower = joined_pair(d)
    d.sync(leader, 1, {follower: b"B"})
    late = d.sync(follower, 1)
    assert late.sync.assignment == b"B"
    assert late.after_commit
    assert d.sync(leader, 1).sync.assignment == b"", "the leader gave itself nothing"


def test_the_generation_is_written_with_everything_a_restart_needs():
    d = Dialogue()
    leader, follower = d.stable_pair()
    image = d.shard.durable.images[key("g")]
    assert (image.generation, image.leader, image.protocol) == (1, leader, "range")
    assert [(m.member_id, m.subscription, m.assignment) for m in image.members] == [
        (leader, b"meta", b"A"),
        (follower, b"meta", b"B"),
    ]
    assert len(d.log) == 1


def test_refusals():
    d = Dialogue()
    assert d.sync("nobody", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.sync("nobody", 1, group="").error is ErrorCode.INVALID_GROUP_ID
    leader, follower = joined_pair(d)
    assert d.sync("nobody", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.sync(leader, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert d.sync(leader, 2).error is ErrorCode.ILLEGAL_GENERATION
    wrong_type = d.sync(leader, 1, protocol_type="connect")
    assert wrong_type.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.sync(leader, 1, protocol="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.sync(leader, 1, instance_id="s").error is ErrorCode.UNKNOWN_MEMBER_ID
    d.sync(leader, 1, {}, protocol_type="consumer", protocol="range")
    d.join(leader)
    assert d.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_never_syncs_is_out_after_the_rebalance_timeout():
    d = Dialogue()
    one = d.new_member(client="one", rebalance_ms=20_000)
    two = d.new_member(client="two", rebalance_ms=20_000)
    d.run_due()
    leader, follower = one.join.member_id, two.join.member_id
    d.sync(leader, 1, {leader: b"A"})
    for _ in range(4):
        d.wait(5_000)
        d.heartbeat(leader, 1)
        d.heartbeat(follower, 1)
    assert d.state() == "PreparingRebalance"
    assert d.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_leader_that_never_syncs_frees_the_waiting_followers():
    d = Dialogue()
    one = d.new_member(client="one", rebalance_ms=30_000, session_ms=10_000)
    two = d.new_member(client="two", rebalance_ms=30_000, session_ms=10_000)
    d.run_due()
    waiting = d.sync(two.join.member_id, 1)
    d.wait(10_000)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.heartbeat(one.join.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    again = d.join(two.join.member_id)
    assert again.join.generation == 2
    assert again.join.leader == two.join.member_id


def test_waiting_for_the_leader_does_not_end_a_session():
    d = Dialogue()
    leader, follower = joined_pair(d)
    waiting = d.sync(follower, 1)
    for _ in range(8):
        d.wait(5_000)
        d.heartbeat(leader, 1)
    d.sync(leader, 1, {follower: b"B"})
    assert waiting.sync.assignment == b"B"
    assert d.heartbeat(follower, 1) is ErrorCode.NONE


def test_second_sync_of_the_same_member_answers_the_first():
    d = Dialogue()
    leader, follower = joined_pair(d)
    first = d.sync(follower, 1)
    second = d.sync(follower, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    d.sync(leader, 1, {follower: b"B"})
    assert second.sync.assignment == b"B"


def test_assignment_too_large_for_a_record_fails_everybody_and_starts_over():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, operation_bytes_max=2_000))
    leader, follower = joined_pair(d)
    waiting = d.sync(follower, 1)
    refused = d.sync(leader, 1, {leader: bytes(2_000)})
    assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert d.state() == "PreparingRebalance"
    assert d.log == []
