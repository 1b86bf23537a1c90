import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseJoinGroupResponseMember,
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

VERSIONS = range(10)


def join(version, session_ms=10_000, rebalance_ms=60_000):
    return JoinGroupRequest(
        "readers",
        session_ms,
        rebalance_ms if version >= 1 else -1,
        "m-1",
        "host-7" if version >= 5 else None,
        "consumer",
        [JoinGroupRequestJoinGroupRequestProtocol("range", b"\0\1metadata")],
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    joined = JoinGroupResponse(
        generation_id=4,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader="m-1",
        member_id="m-1",
        members=[JoinGroupResponseJoinGroupResponseMember("m-1", None, b"\0\1metadata")],
    )
    backend.coordinate(echo(joined))
    assert await Client(backend).call(join(version), version) == joined
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition) == (2, 1)
    assert request_of(call) == join(version)


@pytest.mark.parametrize(
    ("version", "session_ms", "rebalance_ms", "deadline_ms"),
    [
        (0, 10_000, -1, 20_000),
        (1, 10_000, 60_000, 70_000),
        (9, 10_000, 60_000, 70_000),
        (9, 45_000, 5_000, 55_000),
        (9, -5, -7, 10_000),
        (9, 10_000, 2**31 - 1, 2**31 - 1),
    ],
)
async def test_join_may_wait_as_long_as_a_rebalance(version, session_ms, rebalance_ms, deadline_ms):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await Client(backend).call(join(version, session_ms, rebalance_ms), version)
    [(_, call)] = backend.coordinator_calls()
    assert call.deadline_ms == deadline_ms


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_the_call_are_put_into_a_response(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    response = await Client(backend).call(join(version), version)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (response.generation_id, response.member_id, response.leader) == (-1, "", "")
    assert response.protocol_name == (None if version >= 7 else "")
    assert response.members == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_read_is_not_joined(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.READ, a_group("readers")))
    response = await Client(backend).call(join(version), version)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert backend.coordinator_calls() == []
