import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import list_transactions as codec
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_transaction,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import image_of, transaction_topic

VERSIONS = range(3)


def backend_of(leaders):
    backend = FakeBackend(image_of(transaction_topic(leaders)))
    for number, link in backend.links.items():
        link.coordinate = _lists(f"of-{number}")
    return backend


def _lists(name):
    def answer(call):
        state = codec.ListTransactionsResponseTransactionState(name, 7_000, "Ongoing")
        unknown = [one for one in request_of(call).state_filters if one == "Sleeping"]
        response = codec.ListTransactionsResponse(
            unknown_state_filters=unknown, transaction_states=[state]
        )
        return 0, codec.encode_response(response, call.api_version)

    return answer


def names(answer):
    return [one.transactional_id for one in answer.transaction_states]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_broker_lists_its_own(version):
    backend = backend_of([1, 2, 3])
    answer = await Client(backend, node_id=2).call(codec.ListTransactionsRequest(), version)
    assert (answer.error_code, names(answer)) == (0, ["of-2"])
    [state] = answer.transaction_states
    assert (state.producer_id, state.transaction_state) == (7_000, "Ongoing")
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition) == (2, -1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_bootstrap_port_answers_for_all_nodes(version):
    answer = await Client(backend_of([3, 1, 3])).call(codec.ListTransactionsRequest(), version)
    assert names(answer) == ["of-1", "of-3"]


async def test_none_before_the_first():
    answer = await Client(FakeBackend()).call(codec.ListTransactionsRequest(), 2)
    assert (answer.error_code, names(answer)) == (0, [])


async def test_filters_reach_the_coordinators_and_unknown_states_are_told_once():
    backend = backend_of([1, 2, 3])
    request = codec.ListTransactionsRequest(["Ongoing", "Sleeping"], [7_000], 500, "pay.*")
    answer = await Client(backend).call(request, 2)
    assert [request_of(call) for _, call in backend.coordinator_calls()] == [request] * 3
    assert answer.unknown_state_filters == ["Sleeping"]


async def test_a_loading_coordinator_is_an_error_beside_the_transactions_of_others():
    backend = backend_of([1, 2, 3])
    backend.links[2].coordinate = refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    answer = await Client(backend).call(codec.ListTransactionsRequest(), 1)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert names(answer) == ["of-1", "of-3"]


async def test_ids_that_the_client_may_not_describe_are_left_out():
    backend = backend_of([1, 2, 3])
    backend.deny((AclOperation.DESCRIBE, a_transaction("of-2")))
    answer = await Client(backend).call(codec.ListTransactionsRequest(), 2)
    assert (answer.error_code, names(answer)) == (0, ["of-1", "of-3"])
