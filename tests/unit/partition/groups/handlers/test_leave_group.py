import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from highwater.partition.groups.handlers import leave_group
from tests.unit.partition.groups.handlers.exchange import Exchange


def handle(x: Exchange, message, version: int):
    body = leave_group.handle(x.d.shard, x.call(message, version), x.d.moment)
    return x.decode(body, version)


@pytest.mark.parametrize("version", range(3))
def test_one_member_and_its_error_at_the_top(version):
    x = Exchange(13)
    _, follower = x.d.stable_pair()
    message = LeaveGroupRequest(group_id="g", member_id=follower)
    assert handle(x, message, version).error_code == 0
    assert handle(x, message, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    empty = LeaveGroupRequest(group_id="", member_id="m")
    assert handle(x, empty, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_members_with_errors_of_their_own(version):
    x = Exchange(13)
    leader, _ = x.d.stable_pair()
    message = LeaveGroupRequest(
        group_id="g",
        members=[
            LeaveGroupRequestMemberIdentity(member_id=leader),
            LeaveGroupRequestMemberIdentity(member_id="", group_instance_id="s"),
        ],
    )
    answer = handle(x, message, version)
    assert answer.error_code == 0
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in answer.members] == [
        (leader, None, 0),
        ("", "s", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    message.group_id = ""
    answer = handle(x, message, version)
    assert (answer.error_code, list(answer.members)) == (ErrorCode.INVALID_GROUP_ID, [])
