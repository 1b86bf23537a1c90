"""Offsets of consumer groups: fencing by epochs, deletion, expiry."""

from __future__ import annotations

from dataclasses import replace

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.values import CommitRequest, OffsetToCommit
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import NO_DELAY, key
from tests.unit.partition.groups.embedded_members import Embedded

HOUR_MS = 3_600_000


def commit(d: Talk, member_id: str, epoch: int, *, knows: bool = True) -> ErrorCode:
    request = CommitRequest(
        key=key("g"),
        generation=epoch,
        member_id=member_id,
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit("t", 0, 7, -1, ""),),
        knows_member_epochs=knows,
    )
    [error] = d.shard.commit_offsets(request, d.moment)
    d.settle()
    return error


def test_commits_are_fenced_by_the_member_epoch() -> None:
    d = Talk()
    Consumer(d, "a").join()
    assert commit(d, "a", 1) is ErrorCode.NONE
    assert commit(d, "a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(d, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(d, "a", 1, knows=False) is ErrorCode.UNSUPPORTED_VERSION


def test_members_of_the_classic_protocol_have_generations() -> None:
    d = Talk()
    Consumer(d, "a").join()
    b = Embedded(d)
    b.join()
    assert commit(d, b.id, b.generation, knows=False) is ErrorCode.NONE
    assert commit(d, b.id, 9) is ErrorCode.ILLEGAL_GENERATION


def test_anybody_commits_while_the_group_is_empty() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.leave()
    assert commit(d, "", -1) is ErrorCode.NONE
    assert d.state() is None
    d.restart()
    assert d.committed("t", 0) == 7


def test_fetches_are_fenced_if_they_name_a_member() -> None:
    d = Talk()
    Consumer(d, "a").join()
    validate = d.shard.validate_fetch
    assert validate(key("g"), None, -1) is ErrorCode.NONE
    assert validate(key("g"), "a", 1) is ErrorCode.NONE
    assert validate(key("g"), "a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert validate(key("g"), "b", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert validate(key("other"), "b", 1) is ErrorCode.NONE


def test_only_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    d = Talk()
    Consumer(d, "a").join()
    commit(d, "a", 1)
    slots = [("t", 0), ("u", 0)]
    error, errors = d.shard.delete_offsets(key("g"), slots, d.moment)
    assert error is ErrorCode.NONE
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_offsets_expire_and_then_the_group() -> None:
    config = replace(NO_DELAY, offsets_retention_ms=HOUR_MS, offsets_retention_check_ms=60_000)
    d = Talk(config=config)
    a = Consumer(d, "a")
    a.join()
    commit(d, "a", 1)
    for _ in range(130):
        d.wait(30_000)
        a.beat()
    assert d.committed("t", 0) == 7
    a.leave()
    d.wait(120_000)
    assert d.committed("t", 0) is None
    assert not d.shard.durable.consumer_groups


def test_only_empty_groups_are_deleted() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    commit(d, "a", 1)
    assert d.shard.delete_group(key("g"), d.moment) is ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert d.shard.delete_group(key("g"), d.moment) is ErrorCode.NONE
    d.settle()
    d.restart()
    assert not d.shard.durable.consumer_groups
    assert d.committed("t", 0) is None
