from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_producers as codec
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


def ask(**topics):
    return codec.DescribeProducersRequest(
        [codec.DescribeProducersRequestTopicRequest(name, n) for name, n in topics.items()]
    )


def answer(request):
    """Each partition has one producer, whose id tells the partition."""
    return pb.DescribeProducersResponse(
        results=[
            pb.ProducersAnswer(
                producers=[
                    pb.ProducerDescription(
                        producer_id=1_000 + one.partition,
                        producer_epoch=2,
                        last_sequence=3,
                        last_timestamp=4,
                        coordinator_epoch=-1,
                        current_txn_start_offset=-1,
                    )
                ]
            )
            for one in request.partitions
        ]
    )


def backend_of(*topics):
    backend = FakeBackend(image_of(*topics))
    for link in backend.links.values():
        link.answer_producers = answer
    return backend


def results(response):
    return [
        (t.name, p.partition_index, p.error_code, [one.producer_id for one in p.active_producers])
        for t in response.topics
        for p in t.partitions
    ]


async def test_leaders_are_asked_once_and_answers_keep_their_order():
    backend = backend_of(topic("a", [1, 2, 1]), topic("b", [2]))
    response = await Client(backend).call(ask(a=[2, 0, 1], b=[0]), 0)
    assert results(response) == [
        ("a", 2, 0, [1_002]),
        ("a", 0, 0, [1_000]),
        ("a", 1, 0, [1_001]),
        ("b", 0, 0, [1_000]),
    ]
    [(asked, timeout_s)] = backend.links[1].asked
    assert [(one.topic_id, one.partition) for one in asked.partitions] == [
        (topic_id("a"), 2),
        (topic_id("a"), 0),
    ]
    assert (asked.instance, timeout_s) == ("default", 2)
    assert len(backend.links[2].asked) == 1


async def test_all_that_a_leader_knows_of_a_producer():
    response = await Client(backend_of(topic("a"))).call(ask(a=[0]), 0)
    [one] = response.topics[0].partitions[0].active_producers
    assert (one.producer_id, one.producer_epoch, one.last_sequence) == (1_000, 2, 3)
    assert (one.last_timestamp, one.coordinator_epoch, one.current_txn_start_offset) == (4, -1, -1)


async def test_partitions_that_cannot_be_asked():
    backend = backend_of(topic("a", [1, -1, 3]))

    def away(request):
        raise UnreachableError("node 3 is away")

    backend.links[3].answer_producers = away
    response = await Client(backend).call(ask(a=[0, 1, 2, 9, -1], no=[0]), 0)
    assert results(response) == [
        ("a", 0, 0, [1_000]),
        ("a", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, []),
        ("a", 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, []),
        ("a", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("a", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("no", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
    ]


async def test_who_may_not_read_a_topic_does_not_learn_who_writes_to_it():
    backend = backend_of(topic("a"), topic("b"))
    backend.authorizer = DenySome((AclOperation.READ, Resource(ResourceType.TOPIC, "a")))
    response = await Client(backend).call(ask(a=[0], no=[0], b=[0]), 0)
    assert results(response) == [
        ("a", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, []),
        ("no", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("b", 0, 0, [1_000]),
    ]
