import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
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

VERSIONS = range(5)
BEAT = HeartbeatRequest("readers", 4, "m-1")


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(HeartbeatResponse(0, ErrorCode.REBALANCE_IN_PROGRESS)))
    response = await Client(backend).call(BEAT, version)
    assert response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call), call.deadline_ms) == (2, BEAT, 2_000)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        # A member need not rejoin because its coordinator is still loading.
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
async def test_errors_of_the_call(version, code, told):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(code))
    assert (await Client(backend).call(BEAT, version)).error_code == told


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_read_gets_no_heartbeat(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.READ, a_group("readers")))
    response = await Client(backend).call(BEAT, version)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert backend.coordinator_calls() == []
