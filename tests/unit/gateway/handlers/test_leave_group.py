import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMemberIdentity,
    LeaveGroupResponse,
    LeaveGroupResponseMemberResponse,
)
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(6)


def leave(version):
    if version >= 3:
        return LeaveGroupRequest("readers", members=[LeaveGroupRequestMemberIdentity("m-1")])
    return LeaveGroupRequest("readers", "m-1")


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    members = [LeaveGroupResponseMemberResponse("m-1", None, 25)] if version >= 3 else []
    backend.coordinate(echo(LeaveGroupResponse(members=members)))
    response = await Client(backend).call(leave(version), version)
    assert (response.error_code, list(response.members)) == (0, members)
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call)) == (2, leave(version))


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_the_call(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    response = await Client(backend).call(leave(version), version)
    assert (response.error_code, list(response.members)) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_read_is_not_left(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.READ, a_group("readers")))
    response = await Client(backend).call(leave(version), version)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert backend.coordinator_calls() == []
