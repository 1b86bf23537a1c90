import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestOffsetForLeaderPartition,
    OffsetForLeaderEpochRequestOffsetForLeaderTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)

VERSIONS = range(2, 5)


def ask(*topics):
    """`topics` are (name, [(partition, current epoch, epoch)])."""
    return OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequestOffsetForLeaderTopic(
                name,
                [OffsetForLeaderEpochRequestOffsetForLeaderPartition(*one) for one in partitions],
            )
            for name, partitions in topics
        ]
    )


def backend_of(*topics):
    backend = FakeBackend(image_of(*topics))
    for link in backend.links.values():
        link.answer_epochs = lambda request: pb.OffsetsForLeaderEpochResponse(
            results=[
                pb.EpochAnswer(leader_epoch=one.leader_epoch, end_offset=1_000 + one.partition)
                for one in request.partitions
            ]
        )
    return backend


def results(response):
    return [
        (t.topic, p.partition, p.error_code, p.leader_epoch, p.end_offset)
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_leaders_answer(version):
    backend = backend_of(topic("orders", [1, 2]), topic("clicks", [1]))
    request = ask(("orders", [(1, 6, 4), (0, 5, 3)]), ("clicks", [(0, -1, 2), (8, 1, 1)]))
    response = await Client(backend).call(request, version)
    assert results(response) == [
        ("orders", 1, 0, 4, 1_001),
        ("orders", 0, 0, 3, 1_000),
        ("clicks", 0, 0, 2, 1_000),
        ("clicks", 8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1),
    ]
    [(asked, timeout_s)] = backend.links[1].asked
    assert (asked.instance, timeout_s) == ("default", 2.0)
    assert [
        (one.topic_id, one.partition, one.current_leader_epoch, one.leader_epoch)
        for one in asked.partitions
    ] == [(topic_id("orders"), 0, 5, 3), (topic_id("clicks"), 0, -1, 2)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_unreachable_leader(version):
    backend = backend_of(topic("orders"))

    def away(request):
        raise UnreachableError("node 1")

    backend.links[1].answer_epochs = away
    response = await Client(backend).call(ask(("orders", [(0, 5, 3)])), version)
    assert results(response) == [("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)]


async def test_codes_of_the_leader_reach_the_client():
    backend = backend_of(topic("orders"))
    backend.links[1].answer_epochs = lambda request: pb.OffsetsForLeaderEpochResponse(
        results=[pb.EpochAnswer(error_code=75, leader_epoch=-1, end_offset=-1)]
    )
    response = await Client(backend).call(ask(("orders", [(0, 5, 3)])), 4)
    assert results(response) == [("orders", 0, ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_topics_that_may_not_be_described(version):
    backend = backend_of(topic("orders", (1,)), topic("clicks", (1,)))
    cluster = (AclOperation.CLUSTER_ACTION, THE_CLUSTER)
    backend.deny(cluster, (AclOperation.DESCRIBE, a_topic("orders")))
    request = ask(("orders", [(0, 5, 4)]), ("clicks", [(0, 5, 4)]))
    response = await Client(backend).call(request, version)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert results(response) == [("orders", 0, denied, -1, -1), ("clicks", 0, 0, 4, 1_000)]
    [(asked, _)] = backend.links[1].asked
    assert [one.topic_id for one in asked.partitions] == [topic_id("clicks")]


async def test_who_acts_for_the_cluster_may_ask_for_every_topic():
    backend = backend_of(topic("orders", (1,)))
    backend.deny((AclOperation.DESCRIBE, a_topic("orders")))
    response = await Client(backend).call(ask(("orders", [(0, 5, 4)])), 4)
    assert results(response) == [("orders", 0, 0, 4, 1_000)]
