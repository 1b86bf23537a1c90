import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handlers.delete_records import WAIT_MS_MAX
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)

VERSIONS = range(3)


def ask(*topics, timeout_ms=5_000):
    """`topics` are (name, [(partition, offset)])."""
    return DeleteRecordsRequest(
        [
            DeleteRecordsRequestDeleteRecordsTopic(
                name,
                [DeleteRecordsRequestDeleteRecordsPartition(*one) for one in partitions],
            )
            for name, partitions in topics
        ],
        timeout_ms,
    )


def backend_of(*topics):
    backend = FakeBackend(image_of(*topics))
    for link in backend.links.values():
        link.answer_deletions = lambda request: pb.DeleteRecordsResponse(
            results=[pb.DeleteRecordsResult(low_watermark=one.offset) for one in request.partitions]
        )
    return backend


def results(response):
    return [
        (t.name, p.partition_index, p.error_code, p.low_watermark)
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_leaders_are_asked_once_and_answers_keep_their_order(version):
    backend = backend_of(topic("orders", [1, 2, 1]), topic("clicks", [2]))
    request = ask(("orders", [(2, 7), (1, 8), (0, -1)]), ("clicks", [(0, 9)]))
    response = await Client(backend).call(request, version)
    assert results(response) == [
        ("orders", 2, 0, 7),
        ("orders", 1, 0, 8),
        ("orders", 0, 0, -1),
        ("clicks", 0, 0, 9),
    ]
    [(asked, timeout_s)] = backend.links[1].asked
    assert (asked.instance, asked.timeout_ms, timeout_s) == ("default", 5_000, 7.0)
    assert [(one.topic_id, one.partition, one.offset) for one in asked.partitions] == [
        (topic_id("orders"), 2, 7),
        (topic_id("orders"), 0, -1),
    ]
    assert len(backend.links[2].asked) == 1


async def test_unknown_leaderless_and_internal_partitions():
    backend = backend_of(topic("orders", [1, -1]), topic("__consumer_offsets", [1], internal=True))
    request = ask(
        ("orders", [(0, 1), (1, 1), (9, 1)]),
        ("gone", [(0, 1)]),
        ("__consumer_offsets", [(0, 1), (5, 1)]),
    )
    response = await Client(backend).call(request, 2)
    assert results(response) == [
        ("orders", 0, 0, 1),
        ("orders", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("__consumer_offsets", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


@pytest.mark.parametrize(("timeout_ms", "waits_ms"), [(-1, 0), (2**31 - 1, WAIT_MS_MAX)])
async def test_the_wait_has_a_limit(timeout_ms, waits_ms):
    backend = backend_of(topic("orders"))
    await Client(backend).call(ask(("orders", [(0, 1)]), timeout_ms=timeout_ms), 1)
    assert backend.links[1].asked[0][0].timeout_ms == waits_ms


async def test_a_node_that_cannot_be_reached_costs_only_its_partitions():
    backend = backend_of(topic("orders", [1, 2]))

    def away(_request):
        raise UnreachableError("gone")

    backend.links[1].answer_deletions = away
    response = await Client(backend).call(ask(("orders", [(0, 3), (1, 4)])), 1)
    assert results(response) == [
        ("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("orders", 1, 0, 4),
    ]


async def test_a_topic_that_the_client_may_not_delete_from():
    backend = backend_of(topic("orders"), topic("mine"))
    denied = (AclOperation.DELETE, Resource(ResourceType.TOPIC, "orders"))
    backend.authorizer = DenySome(denied)
    response = await Client(backend).call(ask(("orders", [(0, 1)]), ("mine", [(0, 2)])), 2)
    assert results(response) == [
        ("orders", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
        ("mine", 0, 0, 2),
    ]
