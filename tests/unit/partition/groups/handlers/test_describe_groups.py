import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_groups import DescribeGroupsRequest
from highwater.partition.groups.handlers import describe_groups
from tests.unit.partition.groups.handlers.exchange import Exchange


def handle(x: Exchange, message, version: int, shard_of=None):
    body = describe_groups.handle(shard_of or x.shard_of, x.call(message, version))
    return x.decode(body, version).groups


@pytest.mark.parametrize("version", range(7))
def test_every_version(version):
    x = Exchange(15)
    one = x.d.join(instance_id="s1")
    x.d.run_due()
    member_id = one.join.member_id
    x.d.sync(member_id, 1, {member_id: b"A"}, instance_id="s1")
    (group,) = handle(x, DescribeGroupsRequest(groups=["g"]), version)
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        member_id,
        "c",
        "/127.0.0.1",
    )
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"A")
    assert member.group_instance_id == ("s1" if version >= 4 else None)
    assert group.authorized_operations == -(2**31)


@pytest.mark.parametrize("version", range(7))
def test_unknown_group(version):
    (group,) = handle(Exchange(15), DescribeGroupsRequest(groups=["?"]), version)
    assert group.group_state == "Dead"
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
    assert group.error_code == expected
    assert (group.error_message is not None) == (version >= 6)


def test_authorized_operations_when_asked_for():
    request = DescribeGroupsRequest(groups=["?"], include_authorized_operations=True)
    (group,) = handle(Exchange(15), request, 3)
    assert group.authorized_operations == 0b1101_0100_1000
    (unknown,) = handle(Exchange(15), request, 6)
    assert unknown.authorized_operations == -(2**31)


def test_group_of_another_coordinator():
    request = DescribeGroupsRequest(groups=["g"])
    (group,) = handle(Exchange(15), request, 5, lambda group_id: ErrorCode.NOT_COORDINATOR)
    assert group.error_code == ErrorCode.NOT_COORDINATOR
