from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestOffsetDeleteRequestPartition,
    OffsetDeleteRequestOffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    echo,
    group_topic,
    image_of,
    refuse,
    request_of,
)

DELETE = OffsetDeleteRequest(
    "readers",
    [
        OffsetDeleteRequestOffsetDeleteRequestTopic(
            "access_log", [OffsetDeleteRequestOffsetDeleteRequestPartition(0)]
        )
    ],
)


async def test_request_and_response_pass_through():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(echo(OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)))
    response = await Client(backend).call(DELETE, 0)
    assert response.error_code == ErrorCode.NON_EMPTY_GROUP
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call)) == (2, DELETE)


async def test_errors_of_the_call():
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    response = await Client(backend).call(DELETE, 0)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
