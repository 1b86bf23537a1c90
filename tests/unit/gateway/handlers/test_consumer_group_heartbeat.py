import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ANONYMOUS
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import group_topic, image_of

VERSIONS = range(2)


def heartbeat():
    return ConsumerGroupHeartbeatRequest(
        "readers", "m-1", 0, subscribed_topic_names=["t", "u"], topic_partitions=[]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(ConsumerGroupHeartbeatResponse(0, 0, None, "m-1", 3, 5_000)))
    response = await Client(backend).call(heartbeat(), version)
    assert (response.error_code, response.member_epoch) == (0, 3)
    [(node_id, call)] = backend.coordinator_calls()
    assert node_id == 2
    assert request_of(call) == heartbeat()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
async def test_errors_of_the_call(version, code):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(code))
    response = await Client(backend).call(heartbeat(), version)
    assert (response.error_code, response.assignment) == (code, None)


@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ((AclOperation.READ, a_group("readers")), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((AclOperation.DESCRIBE, a_topic("u")), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_what_is_denied_does_not_reach_the_coordinator(denied, code):
    backend = FakeBackend(image_of(group_topic()))
    backend.deny(denied)
    response = await Client(backend).call(heartbeat(), 1)
    assert response.error_code == code
    assert backend.coordinator_calls() == []


async def test_other_denied_topics_do_not_matter():
    backend = FakeBackend(image_of(group_topic()))
    backend.deny((AclOperation.DESCRIBE, a_topic("x")))
    backend.coordinate(echo(ConsumerGroupHeartbeatResponse(member_epoch=1)))
    assert (await Client(backend).call(heartbeat(), 1)).member_epoch == 1


async def test_the_coordinator_is_told_what_the_client_may_describe():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(ConsumerGroupHeartbeatResponse(member_epoch=1)))
    await Client(backend).call(heartbeat(), 1)
    backend.deny((AclOperation.DESCRIBE, a_topic("x")))
    await Client(backend).call(heartbeat(), 1)
    first, second = (call.view for _, call in backend.coordinator_calls())
    assert first is None
    assert second is not None
    assert second.principal == ANONYMOUS
