import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsAssignment,
    CreatePartitionsRequestCreatePartitionsTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import GROUP_METADATA_TOPIC
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
    topic_id,
)
from tests.unit.gateway.quota.fake_quota import Owing

VERSIONS = range(4)
GROW = CreatePartitionsRequestCreatePartitionsTopic


def ask(*topics, validate_only=False):
    return CreatePartitionsRequest(topics, 500, validate_only)


def codes(response):
    return [(r.name, r.error_code) for r in response.results]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_topic_has_its_result(version):
    # With an empty list here, three of librdkafka's own tests fail.
    backend = FakeBackend(image_of(topic("orders"), topic("clicks", [1, 2])))
    backend.controller.errors[topic_id("clicks")] = (ErrorCode.INVALID_PARTITIONS, "not more")
    response = await Client(backend).call(
        ask(GROW("orders", 5, None), GROW("nothing", 5, None), GROW("clicks", 1, None)), version
    )
    assert codes(response) == [("orders", 0), ("nothing", 3), ("clicks", 37)]
    assert [r.error_message for r in response.results][::2] == [None, "not more"]
    [asked] = backend.controller.requests
    assert (asked.instance, asked.timeout_ms, asked.validate_only) == ("default", 500, False)
    assert [(t.topic_id, t.count) for t in asked.topics] == [
        (topic_id("orders"), 5),
        (topic_id("clicks"), 1),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_assignments_are_of_the_new_partitions(version):
    backend = FakeBackend(image_of(topic("clicks", [1, 2])))
    assignments = [
        CreatePartitionsRequestCreatePartitionsAssignment([2, 3]),
        CreatePartitionsRequestCreatePartitionsAssignment([3, 1]),
    ]
    await Client(backend).call(ask(GROW("clicks", 4, assignments)), version)
    [growth] = backend.controller.requests[0].topics
    assert [(a.partition, list(a.replicas)) for a in growth.assignments] == [
        (2, [2, 3]),
        (3, [3, 1]),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_named_twice(version):
    backend = FakeBackend(image_of(topic("orders")))
    request = ask(GROW("orders", 5, None), GROW("orders", 6, None))
    response = await Client(backend).call(request, version)
    assert codes(response) == [("orders", ErrorCode.INVALID_REQUEST)]
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_internal_topics_do_not_grow(version):
    """Otherwise their groups would map to other partitions, without offsets there."""
    backend = FakeBackend(image_of(group_topic(), topic("orders")))
    request = ask(GROW(GROUP_METADATA_TOPIC, 100, None), GROW("orders", 5, None))
    response = await Client(backend).call(request, version)
    assert codes(response) == [
        (GROUP_METADATA_TOPIC, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", 0),
    ]
    [asked] = backend.controller.requests
    assert [t.topic_id for t in asked.topics] == [topic_id("orders")]


async def test_validate_only_changes_nothing():
    backend = FakeBackend(image_of(topic("orders")))
    response = await Client(backend).call(ask(GROW("orders", 5, None), validate_only=True), 3)
    assert codes(response) == [("orders", 0)]
    assert backend.controller.requests[0].validate_only


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_deleted_meanwhile_is_an_unknown_name(version):
    backend = FakeBackend(image_of(topic("orders")))
    backend.controller.errors[topic_id("orders")] = (ErrorCode.UNKNOWN_TOPIC_ID, "no such id")
    response = await Client(backend).call(ask(GROW("orders", 5, None)), version)
    assert codes(response) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_that_may_not_be_altered_does_not_grow(version):
    backend = FakeBackend(image_of(topic("orders"), topic("clicks")))
    authorizer = backend.deny((AclOperation.ALTER, a_topic("clicks")))
    twice = GROW("twice", 5, None)
    request = ask(GROW("clicks", 5, None), GROW("orders", 5, None), twice, twice)
    response = await Client(backend).call(request, version)
    assert codes(response) == [("clicks", 29), ("orders", 0), ("twice", 42)]
    [asked] = backend.controller.requests
    assert [one.topic_id for one in asked.topics] == [topic_id("orders")]
    assert [one for _, _, one in authorizer.asked] == [a_topic("clicks"), a_topic("orders")]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_list_of_assignments_is_not_null(version):
    backend = FakeBackend(image_of(topic("orders"), topic("clicks", [1, 2])))
    code = (ErrorCode.INVALID_PARTITIONS, "not more")
    backend.controller.errors[topic_id("clicks")] = code
    request = ask(GROW("orders", 5, []), GROW("clicks", 2, []))
    response = await Client(backend).call(request, version)
    assert codes(response) == [
        ("orders", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("clicks", ErrorCode.INVALID_PARTITIONS),
    ]
    assert response.results[0].error_message == (
        "Attempted to add 4 additional partition(s), but only 0 assignment(s) were specified."
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_owes_partitions_adds_no_more(version):
    backend = FakeBackend(image_of(topic("a"), topic("b", [1, 2]), topic("c", [1, 2])))
    client = Client(backend)
    client.quota = owing = Owing()
    grow = (GROW("a", 5, None), GROW("b", 5, None), GROW("c", 1, None))
    backend.controller.errors[topic_id("c")] = (ErrorCode.INVALID_PARTITIONS, "not more")
    response = await client.call(ask(*grow), version)
    strict = version >= 3
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if strict else 0
    assert codes(response) == [("a", 0), ("b", code), ("c", ErrorCode.INVALID_PARTITIONS)]
    assert owing.asked == [(4, strict), (3, strict)], "what adds none takes nothing"
