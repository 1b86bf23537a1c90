"""Metadata about topics that are named by id (KIP-516): version 12 on."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.model.acl_operations import NOT_ASKED, AclOperation
from highwater.model.errors import UnreachableError
from highwater.model.ids import NO_TOPIC_ID, InstanceId
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

NOWHERE = b"no such topic id"


def asking(*topics, **fields):
    """Topics as (id, name)."""
    return MetadataRequest(
        [MetadataRequestMetadataRequestTopic(one, name) for one, name in topics], **fields
    )


def found(response):
    return [(t.error_code, t.name, t.topic_id, len(t.partitions)) for t in response.topics]


@pytest.mark.parametrize("version", [12, 13])
async def test_known_and_unknown_ids(version):
    theirs = topic("theirs", instance=InstanceId("team"))
    backend = FakeBackend(image_of(topic("orders", (1, 2)), theirs))
    ids = [topic_id("orders"), NOWHERE, theirs.topic_id, topic_id("orders")]
    response = await Client(backend).call(asking(*((one, None) for one in ids)), version)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert found(response) == [
        (0, "orders", topic_id("orders"), 2),
        (unknown, None, NOWHERE, 0),
        (unknown, None, theirs.topic_id, 0),
    ]
    assert response.error_code == 0


@pytest.mark.parametrize("version", [12, 13])
async def test_with_an_id_the_names_are_ignored_and_nothing_is_created(version):
    backend = FakeBackend(image_of(topic("orders"), topic("other")))
    request = asking(
        (topic_id("orders"), "a name that no topic has"),
        (NO_TOPIC_ID, "other"),
        (NO_TOPIC_ID, "new"),
    )
    response = await Client(backend).call(request, version)
    assert found(response) == [(0, "orders", topic_id("orders"), 1)]
    assert not backend.image.topic("new")


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        (10, (topic_id("orders"), "orders")),
        (11, (topic_id("orders"), "orders")),
        (10, (NO_TOPIC_ID, None)),
        (11, (NO_TOPIC_ID, None)),
        (12, (NO_TOPIC_ID, None)),
        (13, (NO_TOPIC_ID, None)),
    ],
)
async def test_ids_and_null_names_where_they_may_not_be(version, asked):
    backend = FakeBackend(image_of(topic("orders")))
    response = await Client(backend).call(asking((NO_TOPIC_ID, "orders"), asked), version)
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert [t.name for t in response.topics] == ["orders", asked[1] or ""]
    assert response.error_code == (ErrorCode.INVALID_REQUEST if version >= 13 else 0)


@pytest.mark.parametrize("version", [12, 13])
async def test_a_request_that_fails_as_a_whole_says_so_on_top_from_13_on(version):
    backend = FakeBackend(image_of())

    def fail(*_):
        raise UnreachableError("no controller")

    backend.controller.create_topics = fail
    response = await Client(backend).call(asking((NO_TOPIC_ID, "new")), version)
    (only,) = response.topics
    assert only.error_code
    assert response.error_code in (0, only.error_code)


async def test_an_answer_by_id_has_no_older_epoch_than_clients_know():
    orders = topic("orders")
    backend = FakeBackend(image_of(orders))
    routes = backend.routing.by_id(orders.instance, orders.topic_id)
    backend.routing.told(routes.partitions[0], 9)
    backend.wait_for_revision = later
    response = await Client(backend).call(asking((orders.topic_id, None)), 12)
    [part] = response.topics[0].partitions
    assert (part.error_code, part.leader_id, part.leader_epoch) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        -1,
        9,
    )


async def later(*_):
    """The newer image does not come in time."""
    return False


async def test_a_topic_that_may_not_be_described_has_no_name():
    """Kafka: `KafkaApis.handleTopicMetadataRequest`; ids are no secret."""
    backend = FakeBackend(image_of(topic("orders"), topic("hidden")))
    backend.deny((AclOperation.DESCRIBE, a_topic("hidden")))
    request = asking(
        *((one, None) for one in (topic_id("hidden"), NOWHERE, topic_id("orders"))),
        include_topic_authorized_operations=True,
    )
    response = await Client(backend).call(request, 12)
    assert found(response) == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id("hidden"), 0),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, NOWHERE, 0),
        (0, "orders", topic_id("orders"), 1),
    ]
    operations = [one.topic_authorized_operations for one in response.topics]
    assert operations[:2] == [NOT_ASKED] * 2
    assert operations[2] > 0
