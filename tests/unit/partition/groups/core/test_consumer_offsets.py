"""Offsets of consumer groups: fencing by epochs, deletion, expiry."""

from __future__ import annotations

from dataclasses import replace

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.core.values import CommitRequest, OffsetToCommit
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import NO_DELAY, key
from tests.unit.partition.groups.embedded_members import Embedded
from tests.unit.partition.groups.topics import topic_id

HOUR_MS = 3_600_000


def commit(
    d: Talk, member_id: str, epoch: int, *, partition: int = 0, topic: str = "t", knows: bool = True
) -> ErrorCode:
    request = CommitRequest(
        key=key("g"),
        generation=epoch,
        member_id=member_id,
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit(topic, partition, 7, -1, ""),),
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


def test_an_older_epoch_commits_what_the_member_has_had_since_then() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()  # All six of "t", in epoch 1.
    assert b.join().epoch == 2  # Waits for those of "a".
    a.beat()
    kept, taken = a.held, set(range(6)) - set(*a.partitions.values())
    assert a.epoch == 1
    assert commit(d, "a", 1, partition=min(taken)) is ErrorCode.NONE  # Still to be given up.
    a.beat()
    assert (a.epoch, a.held) == (2, kept)
    d.restart()  # The epochs are in the records.
    [kept_partition, *_] = kept[topic_id("t")]
    assert commit(d, "a", 1, partition=kept_partition) is ErrorCode.NONE
    assert commit(d, "a", 1, partition=min(taken)) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "a", 1, topic="u", partition=kept_partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "a", 1, topic="gone") is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "a", 0, partition=kept_partition) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "a", 3, partition=kept_partition) is ErrorCode.STALE_MEMBER_EPOCH
    # The new owner got its partitions in epoch 2.
    b.beat()
    assert commit(d, "b", 1, partition=min(taken)) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(d, "b", 2, partition=min(taken)) is ErrorCode.NONE


def test_an_older_epoch_is_judged_for_each_partition_of_a_commit() -> None:
    d = Talk()
    a, b = Consumer(d, "a"), Consumer(d, "b")
    a.join()
    b.join()
    a.beat()
    a.beat()
    [kept] = a.partitions.values()
    given_up = min(set(range(6)) - set(kept))
    request = CommitRequest(
        key=key("g"),
        generation=1,
        member_id="a",
        instance_id=None,
        retention_ms=-1,
        offsets=tuple(OffsetToCommit("t", p, 9, -1, "") for p in (given_up, kept[0])),
        knows_member_epochs=True,
    )
    stale, none = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE
    assert d.shard.commit_offsets(request, d.moment) == [stale, none]
    pending = d.shard.commit_pending(request, Producer(1, 0), d.moment)
    assert pending == [ErrorCode.ILLEGAL_GENERATION, none]
    d.settle()
    assert (d.committed("t", given_up), d.committed("t", kept[0])) == (None, 9)


def test_a_static_member_that_comes_back_has_had_all_since_it_joined() -> None:
    d = Talk()
    a = Consumer(d, "a", instance_id="i")
    a.join()
    a.leave(-2)
    again = Consumer(d, "b", instance_id="i")
    again.join()
    assert commit(d, "b", 0) is ErrorCode.NONE


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
