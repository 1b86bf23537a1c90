import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError
from highwater.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestSyncGroupRequestAssignment,
    SyncGroupResponse,
    encode_request,
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


def sync(version):
    named = ("consumer", "range") if version >= 5 else (None, None)
    return SyncGroupRequest(
        "readers", 4, "m-1", None, *named, [SyncGroupRequestSyncGroupRequestAssignment("m-1", b"a")]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    named = ("consumer", "range") if version >= 5 else (None, None)
    backend.coordinate(echo(SyncGroupResponse(0, 0, *named, b"assignment")))
    response = await Client(backend).call(sync(version), version)
    assert (response.error_code, bytes(response.assignment)) == (0, b"assignment")
    [(node_id, call)] = backend.coordinator_calls()
    assert node_id == 2
    assert request_of(call) == sync(version)
    assert call.deadline_ms == 300_000


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_errors_of_the_call(version, code, told):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(code))
    response = await Client(backend).call(sync(version), version)
    assert (response.error_code, bytes(response.assignment)) == (told, b"")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_read_is_not_synchronised(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.READ, a_group("readers")))
    response = await Client(backend).call(sync(version), version)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("named", [(None, "range"), ("consumer", None), (None, None)])
@pytest.mark.parametrize("denied", [False, True])
async def test_a_request_without_its_protocol_is_refused_before_anybody_is_asked(named, denied):
    backend = FakeBackend(image_of(group_topic()))
    if denied:
        backend.deny((AclOperation.READ, a_group("readers")))
    request = SyncGroupRequest("readers", 4, "m-1", "instance", *named, [])
    response = await Client(backend).call(request, 5)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert backend.coordinator_calls() == []


@pytest.mark.parametrize("size", range(1, 27))
async def test_a_request_that_is_cut_off_is_malformed(size):
    backend = FakeBackend(image_of(group_topic()))
    body = encode_request(sync(5), 5)
    with pytest.raises(DecodeError):
        await Client(backend).send(ApiKey.SYNC_GROUP, 5, body[:size])
