"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a consumer group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.values import LeavingMember
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle
from tests.unit.partition.groups.dialogue import NO_DELAY
from tests.unit.partition.groups.embedded_members import Embedded, subscription


def group_of_one(**config: int) -> tuple[Talk, Consumer]:
    d = Talk(config=replace(NO_DELAY, **config))  # type: ignore[arg-type]
    a = Consumer(d, "a")
    a.join()
    return d, a


def test_a_new_member_first_gets_an_id() -> None:
    d, _ = group_of_one()
    call = Embedded(d).send_join()
    assert call.error is ErrorCode.MEMBER_ID_REQUIRED
    assert call.join.member_id == "id1"


def test_an_old_client_joins_at_once() -> None:
    d, _ = group_of_one()
    call = d.join(protocols=(("range", subscription("t")),), version=0)
    assert (call.error, call.join.protocol) == (ErrorCode.NONE, "range")
    assert call.after_commit


def test_it_gets_its_share_step_by_step() -> None:
    d, a = group_of_one()
    b = Embedded(d)
    b.join()
    assert b.held == {}
    a.beat()
    assert b.beat() is ErrorCode.NONE  # The other one has not confirmed yet.
    a.beat()
    assert b.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(b.held["t"]) == 3
    assert b.beat() is ErrorCode.NONE


def test_it_gives_up_partitions_by_joining_again() -> None:
    d, a = group_of_one()
    b = Embedded(d)
    b.join()
    settle([a], 2)
    b.beat()
    c = Consumer(d, "c")
    c.join()
    settle([a, c])
    assert b.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(b.held["t"]) == 2
    assert b.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle([a, c])
    assert b.beat() is ErrorCode.NONE
    assert len(c.partitions["t"]) == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"?"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", b"\xff\xff"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_is_not_of_the_consumer_protocol(options: dict[str, object], error: ErrorCode) -> None:
    d, _ = group_of_one()
    assert d.join("b", **options).error is error  # type: ignore[arg-type]


def test_protocols_that_the_other_classic_members_do_not_have() -> None:
    d, _ = group_of_one()
    Embedded(d).join()
    other = d.join("b", protocols=(("sticky", subscription("t")),))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group() -> None:
    d, _ = group_of_one(consumer_group_size_max=1)
    assert Embedded(d).send_join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_wrong_generations_and_members() -> None:
    d, _ = group_of_one()
    b = Embedded(d)
    b.join()
    assert d.heartbeat(b.id, 9) is ErrorCode.ILLEGAL_GENERATION
    assert d.heartbeat("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID  # It speaks the other protocol.
    assert d.sync(b.id, 9).error is ErrorCode.ILLEGAL_GENERATION
    assert d.sync("x", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = d.sync(b.id, b.generation, protocol_type="connect")
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = d.sync(b.id, b.generation, protocol="sticky")
    assert wrong.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_newer_epoch_makes_the_sync_fail() -> None:
    d, _ = group_of_one()
    b = Embedded(d)
    b.join()
    Consumer(d, "c").join()
    assert d.sync(b.id, b.generation).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_members_are_fenced_by_their_instance() -> None:
    d, _ = group_of_one()
    b = Embedded(d, instance_id="i")
    b.join()
    again = Embedded(d, instance_id="i")
    again.join()
    assert again.id != b.id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert d.heartbeat(b.id, b.generation, instance_id="i") is fenced
    assert d.sync(b.id, b.generation, instance_id="i").error is fenced
    assert b.send_join().error is fenced
    assert again.send_join().error is ErrorCode.NONE


def test_a_member_leaves_and_admins_remove_by_instance() -> None:
    d, a = group_of_one()
    b, c = Embedded(d), Embedded(d, instance_id="i")
    b.join()
    c.join()
    errors = d.leave(
        b.id,
        "x",
        LeavingMember(member_id="", instance_id="i"),
        LeavingMember(member_id="x", instance_id="i"),
        LeavingMember(member_id="", instance_id="j"),
    )
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert set(d.group().members) == {"a"}
    epoch = d.group().epoch
    assert d.leave("x") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert d.group().epoch == epoch
    settle([a])
    assert len(a.partitions["t"]) == 6


def test_a_member_that_does_not_sync_or_join_again_is_removed() -> None:
    d, _ = group_of_one()
    b = Embedded(d)
    call = b.send_join(b.send_join().join.member_id)
    member_id, epoch = call.join.member_id, call.join.generation
    for _ in range(3):
        d.wait(5_000)
        assert d.heartbeat(member_id, epoch) is ErrorCode.NONE
    d.wait(5_000)
    assert d.heartbeat(member_id, epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    b = Embedded(d)
    b.join()
    d.topics.set("t", 9)
    d.topics_change()
    for _ in range(4):
        assert d.heartbeat(b.id, b.generation) is ErrorCode.REBALANCE_IN_PROGRESS
        d.wait(5_000)
    assert d.heartbeat(b.id, b.generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_gives_way_to_a_classic_one() -> None:
    d, a = group_of_one()
    a.leave()
    d.commit({("t", 0): 5})
    call = d.new_member(protocols=(("range", subscription("t")),))
    d.run_due()
    assert call.join.generation == 1
    assert not d.shard.durable.consumer_groups
    assert d.committed("t", 0) == 5


@pytest.mark.parametrize("session_ms", [0, 2**31 - 1])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    d, _ = group_of_one()
    offer = (("range", subscription("t")),)
    call = d.join(protocols=offer, version=0, session_ms=session_ms)
    assert call.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert len(d.group().members) == 1


def test_metadata_that_does_not_fit_into_a_record_is_refused() -> None:
    d, _ = group_of_one()
    offers = [(f"p{number}", subscription("t") + bytes(300_000)) for number in range(3)]
    call = d.join(protocols=(("range", subscription("t")), *offers), version=0)
    assert call.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(d.group().members) == 1


@pytest.mark.parametrize("limit", [{"members_max": 1}, {"metadata_bytes_max": 1_500}])
def test_there_is_no_room_for_more_members(limit: dict[str, int]) -> None:
    d, _ = group_of_one(**limit)
    call = d.join(protocols=(("range", subscription("t")),), version=0)
    assert call.error is ErrorCode.GROUP_MAX_SIZE_REACHED
