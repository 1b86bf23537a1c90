import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_groups as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    echo,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(7)
GROUP = codec.DescribeGroupsResponseDescribedGroup


def described(call):
    member = codec.DescribeGroupsResponseDescribedGroupMember("m-1", None, "c", "/h", b"md", b"as")
    request = request_of(call)
    operations = 3400 if request.include_authorized_operations else -(2**31)
    groups = [
        GROUP(0, None, group_id, "Stable", "consumer", "range", [member], operations)
        for group_id in request.groups
    ]
    return (0, codec.encode_response(codec.DescribeGroupsResponse(groups=groups), call.api_version))


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_come_back_in_order(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(described)
    response = await Client(backend).call(codec.DescribeGroupsRequest(list("dcba")), version)
    assert [(g.group_id, g.group_state, g.error_code) for g in response.groups] == [
        (group_id, "Stable", 0) for group_id in "dcba"
    ]
    [member] = response.groups[0].members
    assert (member.member_id, member.client_host) == ("m-1", "/h")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"md", b"as")


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize(("asked", "told"), [(True, 3400), (False, -(2**31))])
async def test_the_coordinator_returns_authorized_operations(version, asked, told):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(described)
    response = await Client(backend).call(codec.DescribeGroupsRequest(["a"], asked), version)
    assert response.groups[0].authorized_operations == told


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unreachable_coordinator_fails_its_groups(version):
    backend = FakeBackend(image_of(group_topic([1, -1, 3])))
    backend.coordinate(described)
    response = await Client(backend).call(codec.DescribeGroupsRequest(list("abc")), version)
    assert [(g.group_id, g.error_code, g.group_state) for g in response.groups] == [
        ("a", 15, ""),
        ("b", 0, "Stable"),
        ("c", 0, "Stable"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups_that_may_not_be_described(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(described)
    backend.deny((AclOperation.DESCRIBE, a_group("b")), (AclOperation.DELETE, a_group("c")))
    request = codec.DescribeGroupsRequest(list("abcb"), version >= 3)
    response = await Client(backend).call(request, version)
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [(g.group_id, g.error_code, g.group_state) for g in response.groups] == [
        ("a", 0, "Stable"),
        ("b", denied, ""),
        ("c", 0, "Stable"),
        ("b", denied, ""),
    ]
    asked = [group_id for _, c in backend.coordinator_calls() for group_id in request_of(c).groups]
    assert sorted(asked) == ["a", "c"]
    if version >= 3:
        operations = [group.authorized_operations for group in response.groups]
        assert operations == [3400, -(2**31), 3400 - (1 << AclOperation.DELETE), -(2**31)]


async def test_a_group_that_does_not_exist_is_named_in_words():
    backend = FakeBackend(image_of(group_topic()))
    missing = GROUP(69, "Group a not found.", "a", "Dead")
    backend.coordinate(echo(codec.DescribeGroupsResponse(groups=[missing])))
    response = await Client(backend).call(codec.DescribeGroupsRequest(["a"]), 6)
    [group] = response.groups
    assert (group.error_code, group.error_message) == (69, "Group a not found.")
