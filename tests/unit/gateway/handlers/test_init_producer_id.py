import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, Resource, ResourceType
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    transaction_topic,
)

VERSIONS = range(6)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_call_gives_a_new_id(version):
    client = Client(FakeBackend())
    answers = [await client.call(InitProducerIdRequest(None), version) for _ in range(4)]
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
        (0, 7_000, 0),
        (0, 7_001, 0),
        (0, 7_002, 0),
        (0, 7_003, 0),
    ]


async def test_without_transactions_the_previous_id_does_not_matter():
    request = InitProducerIdRequest(None, producer_id=12, producer_epoch=3)
    answer = await Client(FakeBackend()).call(request, 4)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 7_000, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(12, -1), (-1, 3)])
async def test_half_of_a_former_producer_is_no_request(producer_id, epoch):
    request = InitProducerIdRequest(None, producer_id=producer_id, producer_epoch=epoch)
    answer = await Client(FakeBackend()).call(request, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_coordinator_answers_for_a_transactional_id(version):
    backend = FakeBackend(image_of(group_topic([2, 2, 2]), transaction_topic([1, 2, 3])))
    backend.coordinate(echo(InitProducerIdResponse(producer_id=9_000, producer_epoch=4)))
    former = {"producer_id": 9_000, "producer_epoch": 3} if version >= 3 else {}
    request = InitProducerIdRequest("payments", 40_000, **former)
    answer = await Client(backend).call(request, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 9_000, 4)
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, call.api_version) == (3, 2, version)
    assert request_of(call) == request
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS]
)
async def test_the_coordinators_error_is_in_the_answer(version, code):
    backend = FakeBackend(image_of(transaction_topic()))
    backend.coordinate(refuse(code))
    answer = await Client(backend).call(InitProducerIdRequest("payments"), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_producer_that_asked_for_no_coordinator_has_to(version):
    answer = await Client(FakeBackend()).call(InitProducerIdRequest("payments"), version)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_controller_producers_ask_again(version):
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    answer = await Client(backend).call(InitProducerIdRequest(None), version)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_refusal_of_the_controller_is_retriable_too():
    backend = FakeBackend()
    backend.controller.errors["producer ids"] = (ErrorCode.STALE_BROKER_EPOCH, "")
    answer = await Client(backend).call(InitProducerIdRequest(None), 4)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ([(AclOperation.IDEMPOTENT_WRITE, THE_CLUSTER)], 0),
        ([(AclOperation.WRITE, ResourceType.TOPIC)], 0),
        (
            [
                (AclOperation.IDEMPOTENT_WRITE, THE_CLUSTER),
                (AclOperation.WRITE, ResourceType.TOPIC),
            ],
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ],
)
async def test_who_may_write_any_topic_may_be_idempotent(version, denied, code):
    backend = FakeBackend()
    backend.deny(*denied)
    answer = await Client(backend).call(InitProducerIdRequest(None), version)
    assert answer.error_code == code
    assert bool(backend.controller.requests) == (code == 0)


async def test_a_transactional_id_needs_write_on_it():
    backend = FakeBackend()
    payments = Resource(ResourceType.TRANSACTIONAL_ID, "payments")
    authorizer = backend.deny((AclOperation.WRITE, payments))
    answer = await Client(backend).call(InitProducerIdRequest("payments"), 4)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert [one for _, _, one in authorizer.asked] == [payments]
