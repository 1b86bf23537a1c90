"""TxnOffsetCommit and markers at one shard."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.values import CommitRequest, OffsetToCommit
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import Dialogue, key
from tests.unit.partition.groups.embedded_members import Embedded

P = Producer(7, 2)
EXPIRING = GroupConfig(
    initial_rebalance_delay_ms=0, offsets_retention_ms=1_000, offsets_retention_check_ms=100
)


def pend(d, slots, *, producer=P, generation=-1, member="", instance=None, group="g"):
    request = CommitRequest(
        key=key(group),
        generation=generation,
        member_id=member,
        instance_id=instance,
        retention_ms=-1,
        offsets=tuple(OffsetToCommit(t, p, offset, -1, "") for (t, p), offset in slots.items()),
    )
    errors = d.shard.commit_pending(request, producer, d.moment)
    d.settle()
    return errors


def end(d, *, committed, producer=P):
    marker = TransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
        coordinator_epoch=1,
        transaction_version=2,
    )
    d.shard.end_transaction(marker, d.moment)
    d.settle()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_count_with_the_marker(committed, restart):
    d = Dialogue()
    d.commit({("t", 0): 3})
    assert pend(d, {("t", 0): 10, ("t", 1): 11}) == [0, 0]
    if restart:
        d.restart()
    assert d.committed("t", 0) == 3
    assert d.committed("t", 1) is None
    assert d.shard.is_unstable(key("g"), "t", 0)
    end(d, committed=committed)
    if restart:
        d.restart()
    assert d.committed("t", 0) == (10 if committed else 3)
    assert d.committed("t", 1) == (11 if committed else None)
    assert not d.shard.is_unstable(key("g"), "t", 0)


def test_a_group_of_which_only_aborted_offsets_were_known_is_forgotten():
    d = Dialogue()
    pend(d, {("t", 0): 1})
    assert d.state() == "Empty"
    end(d, committed=False)
    assert d.state() is None


def test_who_may_commit():
    d = Dialogue()
    assert pend(d, {("t", 0): 1}, generation=1, member="m") == [ErrorCode.ILLEGAL_GENERATION]
    leader, _ = d.stable_pair()
    assert pend(d, {("t", 0): 1}) == [0], "a producer that names no generation"
    assert pend(d, {("t", 0): 1}, generation=1, member=leader) == [0]
    assert pend(d, {("t", 0): 1}, generation=0, member=leader) == [ErrorCode.ILLEGAL_GENERATION]
    assert pend(d, {("t", 0): 1}, generation=1, member="x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    d.new_member()
    assert pend(d, {("t", 0): 1}, generation=1, member=leader) == [0], "a rebalance does not matter"


def test_offsets_with_too_much_metadata():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, offset_metadata_bytes_max=0))
    request = CommitRequest(
        key=key("g"),
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=(OffsetToCommit("t", 0, 1, -1, "x"), OffsetToCommit("t", 1, 1, -1, "")),
    )
    assert d.shard.commit_pending(request, P, d.moment) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
    ]


def test_pending_offsets_count_towards_the_limits():
    d = Dialogue(GroupConfig(initial_rebalance_delay_ms=0, offsets_per_group_max=2))
    assert pend(d, {("t", 0): 1, ("t", 1): 1}) == [0, 0]
    assert pend(d, {("t", 2): 1}) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


def test_a_group_with_pending_offsets_does_not_expire():
    d = Dialogue(EXPIRING)
    d.commit({("t", 0): 3, ("t", 1): 4})
    pend(d, {("t", 0): 10})
    d.wait(5_000)
    assert d.committed("t", 0) == 3, "the transaction may be aborted"
    assert d.committed("t", 1) is None
    end(d, committed=False)
    d.wait(5_000)
    assert d.state() is None


def test_deleted_offsets_do_not_come_back_with_the_marker():
    d = Dialogue()
    d.commit({("t", 0): 3})
    pend(d, {("t", 0): 10, ("t", 1): 11, ("u", 0): 12})
    assert d.shard.delete_offsets(key("g"), [("t", 0)], d.moment) == (0, [0])
    d.settle()
    d.shard.topics_deleted(key("g").instance, frozenset({"u"}), d.moment)
    d.settle()
    end(d, committed=True)
    assert d.committed("t", 0) is None
    assert d.committed("t", 1) == 11
    assert d.committed("u", 0) is None


def test_a_deleted_group_has_no_pending_offsets():
    d = Dialogue()
    pend(d, {("t", 0): 10})
    assert d.shard.delete_group(key("g"), d.moment) == 0
    d.settle()
    end(d, committed=True)
    assert d.state() is None


def test_members_of_a_consumer_group_name_their_epoch():
    d = Talk()
    a, b = Consumer(d, "a"), Embedded(d)
    a.join()
    b.join()
    a.beat()
    a.beat()
    assert a.epoch == b.generation == 2
    assert pend(d, {("t", 0): 1}) == [0], "a producer that names no generation"
    for member_id in (a.id, b.id):
        assert pend(d, {("t", 0): 1}, generation=2, member=member_id) == [0]
        for stale in (1, 3):
            # Neither had this partition in epoch 1; see `test_consumer_offsets` for one that was kept.
            errors = pend(d, {("t", 5): 1}, generation=stale, member=member_id)
            assert errors == [ErrorCode.ILLEGAL_GENERATION]
    assert pend(d, {("t", 0): 1}, generation=2, member="x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert pend(d, {("t", 0): 1}, instance="i") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert d.state() is None, "no classic group was made"


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_a_consumer_group_count_with_the_marker_after_a_restart(committed):
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    pend(d, {("t", 0): 10}, generation=1, member="a")
    a.leave()
    d.restart()
    assert d.shard.is_unstable(key("g"), "t", 0)
    end(d, committed=committed)
    d.restart()
    assert d.committed("t", 0) == (10 if committed else None)
    assert d.group().epoch == 2
    assert d.state() is None


def test_a_consumer_group_with_pending_offsets_does_not_expire():
    d = Talk(config=EXPIRING)
    a = Consumer(d, "a")
    a.join()
    a.leave()
    d.commit({("t", 0): 3, ("t", 1): 4})
    pend(d, {("t", 0): 10})
    d.wait(5_000)
    assert d.committed("t", 0) == 3, "the transaction may be aborted"
    assert d.committed("t", 1) is None
    assert d.group().epoch == 2
    end(d, committed=False)
    d.wait(5_000)
    assert not d.shard.durable.consumer_groups
    assert d.committed("t", 0) is None


@pytest.mark.parametrize("restart", [False, True])
def test_pending_offsets_stay_when_a_group_changes_its_type(restart):
    d = Talk()
    pend(d, {("t", 0): 10})
    a = Consumer(d, "a")
    a.join()
    assert d.state() is None
    pend(d, {("t", 1): 11}, generation=1, member="a")
    a.leave()
    d.new_member()
    assert d.state() == "PreparingRebalance"
    if restart:
        d.restart()
        assert d.state() == "Empty"
    assert not d.shard.durable.consumer_groups
    end(d, committed=True)
    assert (d.committed("t", 0), d.committed("t", 1)) == (10, 11)


def test_a_deleted_consumer_group_has_no_pending_offsets():
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.leave()
    pend(d, {("t", 0): 10})
    assert d.shard.delete_group(key("g"), d.moment) == 0
    d.settle()
    end(d, committed=True)
    assert d.committed("t", 0) is None
