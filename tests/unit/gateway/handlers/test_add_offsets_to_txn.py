import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_transaction,
    echo,
    refuse,
    request_of,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    transaction_topic,
)

VERSIONS = range(5)
ASKED = AddOffsetsToTxnRequest("payments", 7_000, 3, "readers")


def backend_of(answer):
    backend = FakeBackend(image_of(group_topic([2, 2, 2]), transaction_topic([1, 1, 3])))
    backend.coordinate(answer)
    return backend


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [0, ErrorCode.CONCURRENT_TRANSACTIONS])
async def test_the_coordinator_of_the_transaction_answers(version, code):
    backend = backend_of(echo(AddOffsetsToTxnResponse(error_code=code)))
    assert (await Client(backend).call(ASKED, version)).error_code == code
    [(node_id, call)] = backend.coordinator_calls()
    assert (node_id, call.partition, request_of(call)) == (3, 2, ASKED)


@pytest.mark.parametrize("version", VERSIONS)
async def test_while_it_is_away(version):
    backend = backend_of(refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    answer = await Client(backend).call(ASKED, version)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("denied", "code"),
    [
        (
            (AclOperation.WRITE, a_transaction("payments")),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ((AclOperation.READ, a_group("readers")), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_who_may_not(version, denied, code):
    backend = backend_of(echo(AddOffsetsToTxnResponse()))
    backend.deny(denied)
    assert (await Client(backend).call(ASKED, version)).error_code == code
    assert backend.coordinator_calls() == []
