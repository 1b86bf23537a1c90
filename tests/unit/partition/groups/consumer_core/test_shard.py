from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import key


def test_refusals_become_answers() -> None:
    d = Talk()
    answer = d.send("a", 1)
    assert (answer.error, answer.member_id, answer.assignment) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        None,
        None,
    )
    assert answer.message == "Consumer group g not found."


def test_a_join_with_an_id_leaves_an_empty_consumer_group_alone() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.leave()
    assert d.join("old").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert key("g") in d.shard.durable.consumer_groups


def test_offsets_of_an_empty_consumer_group_have_a_group_after_a_join_that_is_refused() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.leave()
    d.commit({("t", 0): 3})
    assert d.join(session_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert key("g") not in d.shard.durable.consumer_groups
    assert d.state() == "Empty"
    assert d.shard.delete_group(key("g"), d.moment) is ErrorCode.NONE
    d.settle()
    assert d.committed("t", 0) is None
