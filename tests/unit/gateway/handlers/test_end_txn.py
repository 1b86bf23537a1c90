import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_transaction,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import image_of, transaction_topic

VERSIONS = range(6)


def backend_of(answer):
    backend = FakeBackend(image_of(transaction_topic([1, 1, 3])))
    backend.coordinate(answer)
    return backend


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
async def test_the_coordinator_ends_it(version, committed):
    next_one = {"producer_id": 7_000, "producer_epoch": 4} if version >= 5 else {}
    backend = backend_of(echo(EndTxnResponse(**next_one)))
    request = EndTxnRequest("payments", 7_000, 3, committed)
    answer = await Client(backend).call(request, version)
    told = (answer.error_code, answer.producer_id, answer.producer_epoch)
    assert told == ((0, 7_000, 4) if version >= 5 else (0, -1, -1))
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, request_of(call)) == (3, 2, request)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [14, 15, 16])
async def test_while_the_coordinator_is_away_producers_look_for_it(version, code):
    backend = backend_of(refuse(code))
    answer = await Client(backend).call(EndTxnRequest("payments", 7_000, 3, True), version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_who_may_not_write_it_cannot_end_it(version):
    backend = backend_of(echo(EndTxnResponse()))
    backend.deny((AclOperation.WRITE, a_transaction("payments")))
    answer = await Client(backend).call(EndTxnRequest("payments", 7_000, 3, True), version)
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert backend.coordinator_calls() == []


async def test_an_end_is_not_taken_to_another_coordinator():
    """Its client has perhaps long since gone on there, in the next transaction."""
    backend = backend_of(refuse(ErrorCode.NOT_COORDINATOR))
    backend.links[2].coordinate = echo(EndTxnResponse())

    def refuse_and_move(call):
        backend.change(topics=(transaction_topic([2, 2, 2]),))
        return (ErrorCode.NOT_COORDINATOR, b"")

    backend.links[3].coordinate = refuse_and_move
    answer = await Client(backend).call(EndTxnRequest("payments", 7_000, 3, True), 5)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert [node for node, _ in backend.coordinator_calls()] == [3]


async def test_only_the_node_that_the_client_chose_ends_a_transaction():
    backend = backend_of(echo(EndTxnResponse()))
    request = EndTxnRequest("payments", 7_000, 3, True)
    answer = await Client(backend, node_id=2).call(request, 5)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert backend.coordinator_calls() == []
    assert (await Client(backend, node_id=3).call(request, 5)).error_code == 0
