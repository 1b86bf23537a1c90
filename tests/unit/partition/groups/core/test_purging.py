"""Groups whose instance was purged: all their records go, whatever state they are in."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.core.durable import OffsetRecord, PendingOffset
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
)
from highwater.partition.groups.core.values import CommitRequest, GroupKey, OffsetToCommit
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import Dialogue, key

KEY = key("g")
OTHER = GroupKey(InstanceId("other"), "g")


def commit(talk, key, *, producer=None):
    request = CommitRequest(
        key=key,
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit("t", 0, 5, -1, ""),),
    )
    if producer is None:
        errors = talk.shard.commit_offsets(request, talk.moment)
    else:
        errors = talk.shard.commit_pending(request, producer, talk.moment)
    assert errors == [ErrorCode.NONE]
    talk.settle()


def purge(talk):
    """The default instance, as if it could be."""
    talk.shard.forgetting.begin({DEFAULT_INSTANCE})
    talk.shard.forgetting.step(talk.moment)
    talk.settle()
    assert len(talk.shard.forgetting) == 0


def is_empty(talk):
    durable = talk.shard.durable
    return not list(durable.records()) and not talk.shard.groups and not talk.shard.metadata_bytes


def ends_without(talk):
    """No record is left, also not for the next coordinator, and no timer does harm later."""
    assert is_empty(talk)
    talk.wait(200_000)
    assert is_empty(talk)
    talk.restart()
    assert is_empty(talk)


def test_a_group_that_only_has_offsets():
    talk = Dialogue()
    commit(talk, KEY)
    purge(talk)
    assert talk.log[-1] == OffsetRecord(KEY, "t", 0, None)
    ends_without(talk)


def test_the_groups_of_other_instances_stay():
    talk = Dialogue()
    commit(talk, KEY)
    commit(talk, OTHER)
    purge(talk)
    assert list(talk.shard.groups) == [OTHER]
    talk.restart()
    assert talk.shard.committed_offset(OTHER, "t", 0).offset == 5
    assert talk.shard.committed_offset(KEY, "t", 0) is None


@pytest.mark.parametrize("state", [COMPLETING_REBALANCE, STABLE, PREPARING_REBALANCE])
def test_a_classic_group_with_members(state):
    talk = Dialogue()
    first = talk.join().join.member_id
    talk.join(first)
    talk.run_due()
    if state is not COMPLETING_REBALANCE:
        talk.sync(first, 1, {first: b"all"})
    if state is PREPARING_REBALANCE:
        talk.join(talk.join(client="late").join.member_id, client="late")
    assert talk.shard.groups[KEY].state is state
    purge(talk)
    assert talk.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    ends_without(talk)


def test_calls_that_wait_are_answered():
    talk = Dialogue()
    first = talk.join().join.member_id
    talk.join(first)
    talk.run_due()
    talk.sync(first, 1, {first: b"all"})
    second = talk.join(client="late").join.member_id
    waits = talk.join(second, client="late")
    assert waits.parked
    purge(talk)
    assert waits.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ends_without(talk)


@pytest.mark.parametrize("has_left", [False, True])
def test_a_consumer_group(has_left):
    talk = Talk()
    member = Consumer(talk, "m", "t", topic_regex="u.*")
    member.join()
    talk.wait(100)
    member.beat()
    assert talk.group().members
    if has_left:
        member.leave()
        assert not talk.group().members
        commit(talk, KEY)
    purge(talk)
    assert member.beat().error is not ErrorCode.NONE
    ends_without(talk)


@pytest.mark.parametrize("committed", [False, True])
def test_pending_offsets_do_not_come_back_with_the_marker(committed):
    talk = Dialogue()
    commit(talk, KEY, producer=Producer(7, 2))
    assert isinstance(talk.log[-1], PendingOffset)
    purge(talk)
    assert is_empty(talk)
    marker = TransactionMarker(
        producer_id=7,
        producer_epoch=3,
        committed=committed,
        coordinator_epoch=1,
        transaction_version=2,
    )
    talk.shard.end_transaction(marker, talk.moment)
    talk.settle()
    ends_without(talk)
