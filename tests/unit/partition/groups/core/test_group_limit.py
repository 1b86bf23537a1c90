"""What an instance at its limit of groups may not begin, and what goes on."""

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.core.group_limit import no_limit
from highwater.partition.groups.core.values import CommitRequest, OffsetToCommit
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import NO_DELAY, key


@pytest.fixture
def talk():
    """A classic group "g" of two members, a consumer group "new", a simple one; then the limit."""
    made = Talk(config=replace(NO_DELAY), limit=lambda instance: made.why)
    made.why = ""
    made.stable_pair()
    made.send("a", 0, group="new", **JOINING)
    assert made.commit({("t", 0): 1}, group="simple") == [ErrorCode.NONE]
    made.why = "full"
    return made


JOINING = {"rebalance_timeout_ms": 1, "topic_names": frozenset({"t"}), "owned": NOTHING}


def test_without_limits_nothing_is_refused():
    assert no_limit("shop") == ""


def test_no_group_begins(talk):
    assert talk.join(group="other").error is ErrorCode.POLICY_VIOLATION
    refused = talk.send("b", 0, group="other", **JOINING)
    assert (refused.error, refused.message) == (ErrorCode.POLICY_VIOLATION, "full")
    assert talk.commit({("t", 0): 1}, group="other") == [ErrorCode.POLICY_VIOLATION]
    request = CommitRequest(
        key=key("other"),
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit("t", 0, 1, -1, ""),),
    )
    errors = talk.shard.commit_pending(request, Producer(1, 0), talk.moment)
    assert errors == [ErrorCode.POLICY_VIOLATION]
    assert talk.shard.count(key("g").instance) == 3


def test_groups_that_exist_go_on(talk):
    assert talk.join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert talk.send("b", 0, group="new", **JOINING).error is ErrorCode.NONE
    assert talk.commit({("t", 0): 2}, group="simple") == [ErrorCode.NONE]
    # An empty classic group becomes a consumer group: no group more than before.
    assert talk.send("b", 0, group="simple", **JOINING).error is ErrorCode.NONE
    assert talk.shard.count(key("g").instance) == 3


def test_a_restart_counts_the_same(talk):
    talk.restart()
    assert talk.shard.count(key("g").instance) == 3
    settled = Consumer(talk, "b")
    talk.why = ""
    settled.join()
    assert talk.shard.count(key("g").instance) == 3
