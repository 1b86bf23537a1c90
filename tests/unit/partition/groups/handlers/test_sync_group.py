import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
)
from highwater.partition.groups.handlers import sync_group
from tests.unit.partition.groups.handlers.exchange import Exchange


def handle(x: Exchange, message, version: int):
    call = x.call(message, version)
    sync_group.handle(x.d.shard, call, x.d.moment)
    (reply,) = x.d.shard.take_replies()
    return x.decode(sync_group.encode(reply.response, version), version)


@pytest.mark.parametrize("version", range(6))
def test_the_leader_gets_its_part(version):
    x = Exchange(14)
    joined = x.d.new_member()
    x.d.run_due()
    member = joined.join.member_id
    message = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestSyncGroupRequestAssignment(member_id=member, assignment=b"A")],
    )
    answer = handle(x, message, version)
    assert (answer.error_code, answer.assignment) == (0, b"A")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_errors_and_instance_ids_come_through(version):
    x = Exchange(14)
    leader, _ = x.d.stable_pair()
    message = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=leader, group_instance_id="nobody"
    )
    assert handle(x, message, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_protocol_than_the_groups():
    x = Exchange(14)
    leader, _ = x.d.stable_pair()
    message = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=leader, protocol_name="sticky"
    )
    assert handle(x, message, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
