import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from highwater.model.errors import UnreachableError
from highwater.model.ids import NO_TOPIC_ID
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    OTHER,
    group_topic,
    image_of,
    topic,
    topic_id,
)
from tests.unit.gateway.quota.fake_quota import Owing

VERSIONS = range(1, 7)
STATE = DeleteTopicsRequestDeleteTopicState
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOT_THE_CLUSTER = (AclOperation.DELETE, THE_CLUSTER)


def ask(version, *names):
    if version >= 6:
        return DeleteTopicsRequest([STATE(name) for name in names], timeout_ms=500)
    return DeleteTopicsRequest(topic_names=names, timeout_ms=500)


def codes(response):
    return [(r.name, r.error_code) for r in response.responses]


def backend_of():
    foreign = topic("secret", instance=OTHER)
    return FakeBackend(image_of(topic("orders"), topic("clicks"), group_topic(), foreign))


@pytest.mark.parametrize("version", VERSIONS)
async def test_by_name(version):
    backend = backend_of()
    response = await Client(backend).call(ask(version, "orders", "nothing", "secret"), version)
    assert codes(response) == [("orders", 0), ("nothing", 3), ("secret", 3)]
    [asked] = backend.controller.requests
    assert (asked.instance, asked.timeout_ms) == ("default", 500)
    assert list(asked.topic_ids) == [topic_id("orders")]
    assert backend.image.topic("orders") is None
    assert backend.image.topic("clicks") is not None


async def test_by_id():
    backend = backend_of()
    request = DeleteTopicsRequest(
        [
            STATE(None, topic_id("orders")),
            STATE(None, b"x" * 16),
            STATE(None, topic_id("secret")),
            STATE("clicks"),
        ]
    )
    response = await Client(backend).call(request, 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("orders", topic_id("orders"), 0),
        (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, topic_id("secret"), ErrorCode.UNKNOWN_TOPIC_ID),
        ("clicks", topic_id("clicks"), 0),
    ]
    assert list(backend.controller.requests[0].topic_ids) == [
        topic_id("orders"),
        topic_id("clicks"),
    ]


ORDERS = topic_id("orders")
CONTRADICTORY = pytest.mark.parametrize(
    ("states", "told"),
    [
        ([STATE("orders", ORDERS)], [("orders", ORDERS)]),
        ([STATE(None)], [(None, NO_TOPIC_ID)]),
        ([STATE("orders"), STATE("orders")], [("orders", NO_TOPIC_ID)]),
        ([STATE("nothing"), STATE("nothing")], [("nothing", NO_TOPIC_ID)]),
        ([STATE(None, ORDERS)] * 3, [(None, ORDERS)]),
        ([STATE(None, b"x" * 16)] * 2, [(None, b"x" * 16)]),
    ],
    ids=["both", "neither", "name twice", "unknown name twice", "id thrice", "unknown id twice"],
)


@CONTRADICTORY
@pytest.mark.parametrize("denied", [False, True])
async def test_contradictory_requests_whoever_sends_them(states, told, denied):
    backend = backend_of()
    if denied:
        backend.deny(NOT_THE_CLUSTER, (AclOperation.DESCRIBE, ResourceType.TOPIC))
    response = await Client(backend).call(DeleteTopicsRequest(states), 6)
    assert [(r.name, r.topic_id) for r in response.responses] == told
    assert {r.error_code for r in response.responses} == {ErrorCode.INVALID_REQUEST}
    assert backend.controller.requests == []


async def test_one_answer_for_a_topic_that_is_asked_for_by_name_and_by_id():
    backend = backend_of()
    states = [STATE(None, ORDERS), STATE("orders"), STATE("clicks")]
    response = await Client(backend).call(DeleteTopicsRequest(states), 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("orders", ORDERS, ErrorCode.INVALID_REQUEST),
        ("clicks", topic_id("clicks"), 0),
    ]
    assert list(backend.controller.requests[0].topic_ids) == [topic_id("clicks")]


async def test_a_name_beside_its_id_twice_is_a_duplicate_too():
    states = [STATE(None, ORDERS), STATE("orders"), STATE(None, ORDERS)]
    response = await Client(backend_of()).call(DeleteTopicsRequest(states), 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        (None, ORDERS, ErrorCode.INVALID_REQUEST),
        ("orders", ORDERS, ErrorCode.INVALID_REQUEST),
    ]


async def test_who_may_not_delete_a_topic_does_not_hear_that_name_and_id_are_the_same():
    backend = backend_of()
    backend.deny(NOT_THE_CLUSTER, (AclOperation.DELETE, a_topic("orders")))
    states = [STATE(None, ORDERS), STATE("orders")]
    response = await Client(backend).call(DeleteTopicsRequest(states), 6)
    assert [(r.topic_id, r.error_code) for r in response.responses] == [
        (ORDERS, DENIED),
        (NO_TOPIC_ID, DENIED),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_internal_topics_stay(version):
    backend = backend_of()
    response = await Client(backend).call(ask(version, "__consumer_offsets"), version)
    assert codes(response) == [("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_refusals_of_the_controller(version):
    backend = backend_of()
    backend.controller.errors[topic_id("orders")] = (ErrorCode.POLICY_VIOLATION, "kept for a year")
    response = await Client(backend).call(ask(version, "orders", "clicks"), version)
    assert codes(response) == [("orders", 44), ("clicks", 0)]
    assert response.responses[0].error_message == ("kept for a year" if version >= 5 else None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_that_another_client_deleted_is_an_unknown_name(version):
    backend = backend_of()
    backend.controller.errors[topic_id("orders")] = (ErrorCode.UNKNOWN_TOPIC_ID, "no such id")
    response = await Client(backend).call(ask(version, "orders"), version)
    assert codes(response) == [("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_a_topic_that_another_client_deleted_is_an_unknown_id():
    backend = backend_of()
    backend.controller.errors[topic_id("orders")] = (ErrorCode.UNKNOWN_TOPIC_ID, "no such id")
    request = DeleteTopicsRequest([STATE(None, topic_id("orders"))])
    response = await Client(backend).call(request, 6)
    assert [r.error_code for r in response.responses] == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_controller_clients_look_for_it_again(version):
    backend = backend_of()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(ask(version, "orders"), version)
    assert codes(response) == [("orders", ErrorCode.NOT_CONTROLLER)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_topics_that_may_not_be_deleted(version):
    backend = backend_of()
    backend.deny(
        NOT_THE_CLUSTER,
        (AclOperation.DELETE, a_topic("clicks")),
        (AclOperation.DELETE, a_topic("nothing")),
        (AclOperation.DESCRIBE, a_topic("hidden")),
    )
    names = ["clicks", "orders", "nothing", "hidden"]
    response = await Client(backend).call(ask(version, *names), version)
    assert codes(response) == [
        ("clicks", DENIED),
        ("orders", 0),
        ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("hidden", DENIED),
    ]
    [asked] = backend.controller.requests
    assert list(asked.topic_ids) == [topic_id("orders")]


async def test_an_id_tells_the_name_only_to_those_who_may_know_it():
    backend = backend_of()
    backend.deny(
        NOT_THE_CLUSTER,
        (AclOperation.DELETE, ResourceType.TOPIC),
        (AclOperation.DESCRIBE, a_topic("clicks")),
    )
    states = [STATE(None, topic_id(name)) for name in ("orders", "clicks", "no such topic")]
    response = await Client(backend).call(DeleteTopicsRequest(states, timeout_ms=500), 6)
    assert [(r.name, r.topic_id, r.error_code) for r in response.responses] == [
        ("orders", topic_id("orders"), DENIED),
        (None, topic_id("clicks"), DENIED),
        (None, topic_id("no such topic"), ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert backend.controller.requests == []


async def test_who_may_delete_in_the_cluster_may_delete_every_topic():
    backend = backend_of()
    backend.deny((AclOperation.DELETE, ResourceType.TOPIC))
    assert codes(await Client(backend).call(ask(6, "orders"), 6)) == [("orders", 0)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_owes_partitions_deletes_no_more(version):
    backend = FakeBackend(image_of(topic("a", [1, 2]), topic("b", [1, 2, 3])))
    client = Client(backend)
    client.quota = owing = Owing()
    response = await client.call(ask(version, "a", "b", "nothing"), version)
    strict = version >= 5
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if strict else 0
    assert codes(response) == [("a", 0), ("b", code), ("nothing", 3)]
    assert owing.asked == [(2, strict), (3, strict)]
    assert (backend.image.topic("b") is None) is not strict
