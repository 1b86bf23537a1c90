from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestOffsetDeleteRequestPartition,
    OffsetDeleteRequestOffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseOffsetDeleteResponsePartition,
    OffsetDeleteResponseOffsetDeleteResponseTopic,
)
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
)

IMAGE = image_of(group_topic(), topic("access_log", (1, 2)))
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete(**topics):
    return OffsetDeleteRequest(
        "readers",
        [
            OffsetDeleteRequestOffsetDeleteRequestTopic(
                name, [OffsetDeleteRequestOffsetDeleteRequestPartition(n) for n in partitions]
            )
            for name, partitions in topics.items()
        ],
    )


def answered(**topics):
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseOffsetDeleteResponseTopic(
                name,
                [OffsetDeleteResponseOffsetDeleteResponsePartition(n, code) for n, code in codes],
            )
            for name, codes in topics.items()
        ]
    )


async def test_request_and_response_pass_through():
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(answered(access_log=[(0, 0)])))
    request = delete(access_log=[0])
    assert await Client(backend).call(request, 0) == answered(access_log=[(0, 0)])
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call)) == (2, request)


async def test_missing_partitions_have_an_error():
    """The coordinator does not get them (Kafka's `KafkaApis.handleOffsetDeleteRequest`)."""
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(answered(access_log=[(1, 0)])))
    response = await Client(backend).call(delete(access_log=[1, 2, -1], gone=[0]), 0)
    codes = [
        (found.name, one.partition_index, one.error_code)
        for found in response.topics
        for one in found.partitions
    ]
    assert codes == [
        ("access_log", 1, 0),
        ("access_log", 2, UNKNOWN),
        ("access_log", -1, UNKNOWN),
        ("gone", 0, UNKNOWN),
    ]
    [(_, call)] = backend.coordinator_calls()
    assert request_of(call) == delete(access_log=[1])


async def test_only_unknown_partitions_need_no_coordinator():
    backend = FakeBackend(IMAGE)
    response = await Client(backend).call(delete(gone=[0]), 0)
    assert (response.error_code, response) == (0, answered(gone=[(0, UNKNOWN)]))
    assert backend.coordinator_calls() == []


async def test_errors_of_the_call():
    backend = FakeBackend(IMAGE)
    backend.coordinate(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    response = await Client(backend).call(delete(access_log=[0], gone=[0]), 0)
    assert response == OffsetDeleteResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    backend.coordinate(echo(OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)))
    response = await Client(backend).call(delete(access_log=[0], gone=[0]), 0)
    assert response == OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP)


async def test_offsets_of_topics_that_may_not_be_read_are_not_deleted():
    backend = FakeBackend(image_of(group_topic(), topic("access_log", (1, 2)), topic("orders")))
    backend.coordinate(echo(answered(access_log=[(0, 0)])))
    backend.deny((AclOperation.READ, a_topic("orders")))
    response = await Client(backend).call(delete(access_log=[0], orders=[0, 3]), 0)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert response == answered(access_log=[(0, 0)], orders=[(0, denied), (3, denied)])
    [(_, call)] = backend.coordinator_calls()
    assert [one.name for one in request_of(call).topics] == ["access_log"]


async def test_a_group_that_may_not_be_deleted_keeps_its_offsets():
    backend = FakeBackend(IMAGE)
    backend.deny((AclOperation.DELETE, a_group("readers")))
    response = await Client(backend).call(delete(access_log=[0]), 0)
    assert response == OffsetDeleteResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert backend.coordinator_calls() == []
