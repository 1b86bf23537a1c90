import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseOffsetCommitResponsePartition,
    OffsetCommitResponseOffsetCommitResponseTopic,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import NO_TOPIC_ID, InstanceId
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
    topic_id,
)

VERSIONS = range(2, 10)
IMAGE = image_of(group_topic(), topic("access_log", (1, 2)), topic("orders", [1] * 8))

COMMIT = OffsetCommitRequest(
    "readers",
    4,
    "m-1",
    topics=[
        OffsetCommitRequestOffsetCommitRequestTopic(
            name,
            partitions=[
                OffsetCommitRequestOffsetCommitRequestPartition(n, 42, committed_metadata="note")
                for n in partitions
            ],
        )
        for name, partitions in (("access_log", [0, 1]), ("orders", [7]))
    ],
)


def response_with(code):
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseOffsetCommitResponseTopic(
                name,
                partitions=[
                    OffsetCommitResponseOffsetCommitResponsePartition(n, code) for n in partitions
                ],
            )
            for name, partitions in (("access_log", [0, 1]), ("orders", [7]))
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_request_and_response_pass_through(version):
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(response_with(0)))
    assert await Client(backend).call(COMMIT, version) == response_with(0)
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, request_of(call)) == (2, COMMIT)


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_the_call_are_returned_for_every_partition(version):
    backend = FakeBackend(IMAGE)
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    response = await Client(backend).call(COMMIT, version)
    assert response == response_with(ErrorCode.NOT_COORDINATOR)


def codes_of(response):
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_coordinator_gets_only_existing_partitions(version):
    image = image_of(group_topic(), topic("access_log", (1,)))
    backend = FakeBackend(image)
    accepted = response_with(0)
    accepted.topics = accepted.topics[:1]
    accepted.topics[0].partitions = accepted.topics[0].partitions[:1]
    backend.coordinate(echo(accepted))
    response = await Client(backend).call(COMMIT, version)
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes_of(response) == {
        ("access_log", 0): 0,
        ("access_log", 1): gone,
        ("orders", 7): gone,
    }
    [(_, call)] = backend.coordinator_calls()
    [asked] = request_of(call).topics
    assert (asked.name, [one.partition_index for one in asked.partitions]) == ("access_log", [0])


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_existing_partitions_no_coordinator_is_called(version):
    backend = FakeBackend(image_of(group_topic()))
    response = await Client(backend).call(COMMIT, version)
    assert response == response_with(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert backend.coordinator_calls() == []


async def test_partitions_of_a_deleted_topic_are_not_compared_with_one_another(monkeypatch):
    """With thousands of them the loop would stop for seconds."""
    compared = []
    monkeypatch.setattr(
        OffsetCommitRequestOffsetCommitRequestPartition,
        "__eq__",
        lambda *both: compared.append(both) or both[0] is both[1],
    )
    partitions = [OffsetCommitRequestOffsetCommitRequestPartition(n, 42) for n in range(100)]
    request = OffsetCommitRequest(
        "readers",
        4,
        "m-1",
        topics=[OffsetCommitRequestOffsetCommitRequestTopic("orders", partitions=partitions)],
    )
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(OffsetCommitResponse()))
    response = await Client(backend).call(request, 8)
    [told] = response.topics
    assert [one.partition_index for one in told.partitions] == list(range(8, 100))
    assert not compared


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_of_topics_that_may_not_be_read_are_not_stored(version):
    backend = FakeBackend(IMAGE)
    accepted = response_with(0)
    accepted.topics = accepted.topics[:1]
    backend.coordinate(echo(accepted))
    backend.deny((AclOperation.READ, a_topic("orders")))
    response = await Client(backend).call(COMMIT, version)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes_of(response) == {
        ("access_log", 0): 0,
        ("access_log", 1): 0,
        ("orders", 7): denied,
    }
    [(_, call)] = backend.coordinator_calls()
    assert [one.name for one in request_of(call).topics] == ["access_log"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_may_not_be_read_stores_nothing(version):
    backend = FakeBackend(IMAGE)
    authorizer = backend.deny((AclOperation.READ, a_group("readers")))
    response = await Client(backend).call(COMMIT, version)
    assert response == response_with(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert backend.coordinator_calls() == []
    assert len(authorizer.asked) == 1


async def test_each_resource_is_asked_about_once():
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(response_with(0)))
    authorizer = backend.deny()
    await Client(backend).call(COMMIT, 8)
    resources = [resource for _, _, resource in authorizer.asked]
    assert resources == [a_group("readers"), a_topic("access_log"), a_topic("orders")]


def by_id(request, *unknown):
    """The same request with ids instead of names."""
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        topics=[
            OffsetCommitRequestOffsetCommitRequestTopic(
                topic_id=topic_id(one.name), partitions=one.partitions
            )
            for one in request.topics
        ]
        + [
            OffsetCommitRequestOffsetCommitRequestTopic(
                topic_id=one, partitions=[OffsetCommitRequestOffsetCommitRequestPartition(3, 42)]
            )
            for one in unknown
        ],
    )


def codes_by_id(response):
    assert [topic.name for topic in response.topics] == [""] * len(response.topics)
    return {
        (topic.topic_id, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


async def test_the_coordinator_gets_names_for_ids_in_version_9():
    backend = FakeBackend(IMAGE)
    backend.coordinate(echo(response_with(0)))
    response = await Client(backend).call(by_id(COMMIT), 10)
    access_log, orders = topic_id("access_log"), topic_id("orders")
    assert codes_by_id(response) == {(access_log, 0): 0, (access_log, 1): 0, (orders, 7): 0}
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.api_version, request_of(call)) == (2, 9, COMMIT)


@pytest.mark.parametrize("all_unknown", [False, True])
async def test_unknown_ids_and_partitions(all_unknown):
    """Also of another instance, and no id at all."""
    theirs = topic("theirs", instance=InstanceId("team"))
    some = [] if all_unknown else [topic("access_log", (1,))]
    backend = FakeBackend(image_of(group_topic(), theirs, *some))
    accepted = response_with(0)
    accepted.topics = accepted.topics[:1]
    accepted.topics[0].partitions = accepted.topics[0].partitions[:1]
    backend.coordinate(echo(accepted))
    response = await Client(backend).call(by_id(COMMIT, theirs.topic_id, NO_TOPIC_ID), 10)
    unknown, gone = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes_by_id(response) == {
        (topic_id("access_log"), 0): unknown if all_unknown else 0,
        (topic_id("access_log"), 1): unknown if all_unknown else gone,
        (topic_id("orders"), 7): unknown,
        (theirs.topic_id, 3): unknown,
        (NO_TOPIC_ID, 3): unknown,
    }
    assert len(backend.coordinator_calls()) == (0 if all_unknown else 1)


async def test_errors_of_a_call_by_id_are_returned_for_every_partition():
    backend = FakeBackend(IMAGE)
    backend.coordinate(refuse(ErrorCode.NOT_COORDINATOR))
    response = await Client(backend).call(by_id(COMMIT), 10)
    assert set(codes_by_id(response).values()) == {ErrorCode.NOT_COORDINATOR}
    assert len(codes_by_id(response)) == 3


async def test_topics_by_id_are_allowed_or_denied_by_their_names():
    backend = FakeBackend(IMAGE)
    accepted = response_with(0)
    accepted.topics = accepted.topics[:1]
    backend.coordinate(echo(accepted))
    backend.deny((AclOperation.READ, a_topic("orders")))
    response = await Client(backend).call(by_id(COMMIT), 10)
    assert codes_by_id(response) == {
        (topic_id("access_log"), 0): 0,
        (topic_id("access_log"), 1): 0,
        (topic_id("orders"), 7): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
