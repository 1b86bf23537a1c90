import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestListOffsetsPartition,
    ListOffsetsRequestListOffsetsTopic,
)
from highwater.model.acl_operations import AclOperation
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

VERSIONS = range(1, 12)


def ask(version, *topics, isolation=0):
    """`topics` are (name, [(partition, timestamp)])."""
    return ListOffsetsRequest(
        -1,
        isolation,
        [
            ListOffsetsRequestListOffsetsTopic(
                name,
                [
                    ListOffsetsRequestListOffsetsPartition(n, 7 if version >= 4 else -1, timestamp)
                    for n, timestamp in partitions
                ],
            )
            for name, partitions in topics
        ],
    )


def answer(request):
    """An offset that encodes the asked node and partition."""
    return pb.ListOffsetsResponse(
        results=[
            pb.ListOffsetsResult(timestamp=5, offset=1_000 + one.partition, leader_epoch=3)
            for one in request.partitions
        ]
    )


def backend_of(*topics):
    backend = FakeBackend(image_of(*topics))
    for link in backend.links.values():
        link.answer_offsets = answer
    return backend


def results(response):
    return [
        (t.name, p.partition_index, p.error_code, p.offset)
        for t in response.topics
        for p in t.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_leaders_are_asked_once_and_answers_keep_their_order(version):
    backend = backend_of(topic("orders", [1, 2, 1]), topic("clicks", [2]))
    request = ask(version, ("orders", [(2, -1), (1, -2), (0, 99)]), ("clicks", [(0, -1)]))
    response = await Client(backend).call(request, version)
    assert results(response) == [
        ("orders", 2, 0, 1_002),
        ("orders", 1, 0, 1_001),
        ("orders", 0, 0, 1_000),
        ("clicks", 0, 0, 1_000),
    ]
    first = response.topics[0].partitions[0]
    assert (first.timestamp, first.leader_epoch) == (5, 3 if version >= 4 else -1)
    [(asked, timeout_s)] = backend.links[1].asked
    assert (asked.instance, timeout_s) == ("default", 2.0)
    epoch = 7 if version >= 4 else -1
    assert [
        (one.topic_id, one.partition, one.current_leader_epoch, one.timestamp)
        for one in asked.partitions
    ] == [(topic_id("orders"), 2, epoch, -1), (topic_id("orders"), 0, epoch, 99)]
    assert len(backend.links[2].asked) == 1
    assert backend.links[3].asked == []


@pytest.mark.parametrize("version", range(2, 12))
async def test_the_isolation_level_reaches_the_leader(version):
    backend = backend_of(topic("orders"))
    await Client(backend).call(ask(version, ("orders", [(0, -1)]), isolation=1), version)
    assert backend.links[1].asked[0][0].isolation_level == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_unknown_and_leaderless_partitions(version):
    backend = backend_of(topic("orders", [1, -1]))
    request = ask(version, ("orders", [(0, -1), (1, -1), (9, -1)]), ("gone", [(0, -1)]))
    response = await Client(backend).call(request, version)
    assert results(response) == [
        ("orders", 0, 0, 1_000),
        ("orders", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)]
)
async def test_special_timestamps_by_version(version, timestamp, since):
    backend = backend_of(topic("orders"))
    response = await Client(backend).call(ask(version, ("orders", [(0, timestamp)])), version)
    if version >= since:
        assert results(response) == [("orders", 0, 0, 1_000)]
    else:
        assert results(response) == [("orders", 0, ErrorCode.UNSUPPORTED_VERSION, -1)]
        assert backend.links[1].asked == []


async def test_a_partition_named_twice():
    backend = backend_of(topic("orders", [1, 1]))
    request = ask(5, ("orders", [(0, -1), (1, -1)]), ("orders", [(0, -2)]))
    response = await Client(backend).call(request, 5)
    assert results(response) == [
        ("orders", 0, ErrorCode.INVALID_REQUEST, -1),
        ("orders", 1, 0, 1_001),
        ("orders", 0, ErrorCode.INVALID_REQUEST, -1),
    ]


async def test_an_unreachable_leader():
    backend = backend_of(topic("orders", [1, 2]))

    def away(request):
        raise UnreachableError("node 2")

    backend.links[2].answer_offsets = away
    response = await Client(backend).call(ask(5, ("orders", [(0, -1), (1, -1)])), 5)
    assert results(response) == [
        ("orders", 0, 0, 1_000),
        ("orders", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]


async def test_codes_of_the_leader_reach_the_client():
    # KIP-320: clients handle fencing, so it is never hidden.
    backend = backend_of(topic("orders"))
    backend.links[1].answer_offsets = lambda request: pb.ListOffsetsResponse(
        results=[pb.ListOffsetsResult(error_code=74, timestamp=-1, offset=-1, leader_epoch=-1)]
    )
    response = await Client(backend).call(ask(5, ("orders", [(0, -1)])), 5)
    assert results(response) == [("orders", 0, ErrorCode.FENCED_LEADER_EPOCH, -1)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_of_a_leader_that_is_still_catching_up(version):
    backend = backend_of(topic("orders"))
    backend.links[1].answer_offsets = lambda request: pb.ListOffsetsResponse(
        results=[pb.ListOffsetsResult(error_code=78, timestamp=-1, offset=-1, leader_epoch=-1)]
    )
    response = await Client(backend).call(ask(version, ("orders", [(0, -1)])), version)
    known = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    assert results(response) == [("orders", 0, known, -1)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_topics_that_may_not_be_described(version):
    backend = backend_of(topic("orders", (1, 2)), topic("clicks", (1,)))
    backend.deny((AclOperation.DESCRIBE, a_topic("orders")), (AclOperation.DESCRIBE, a_topic("x")))
    request = ask(version, ("orders", [(0, -1), (0, -1)]), ("x", [(5, -1)]), ("clicks", [(0, -1)]))
    response = await Client(backend).call(request, version)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [(p.error_code, p.offset) for t in response.topics for p in t.partitions] == [
        (denied, -1),
        (denied, -1),
        (denied, -1),
        (0, 1_000),
    ]
    [(asked, _)] = [one for link in backend.links.values() for one in link.asked]
    assert [one.topic_id for one in asked.partitions] == [topic_id("clicks")]
