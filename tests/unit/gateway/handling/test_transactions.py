from highwater.gateway.handling.transactions import (
    allowed_on_transaction,
    ask_transaction_coordinators,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_transaction,
)
from tests.unit.gateway.handlers.images import image_of, transaction_topic


def test_operations_on_a_transactional_id():
    backend = FakeBackend()
    backend.deny((AclOperation.WRITE, a_transaction("payments")))
    context = Client(backend).context(26, 5)
    assert not allowed_on_transaction(context, AclOperation.WRITE, "payments")
    assert allowed_on_transaction(context, AclOperation.DESCRIBE, "payments")
    assert allowed_on_transaction(context, AclOperation.WRITE, "readers")


async def test_a_node_that_is_away_fails_only_what_it_coordinates():
    """abs(hashCode) % 3 in Java: writers 0, readers 1, payments 2."""
    backend = FakeBackend(image_of(transaction_topic([2, 2, 3])))
    del backend.links[3]
    backend.coordinate(lambda call: (0, bytes(call.body).upper()))
    found = await ask_transaction_coordinators(
        Client(backend).context(65, 0),
        ["readers", "payments", "writers"],
        id_of=lambda one: one,
        encode=lambda some: b" ".join(one.encode() for one in some),
        decode=lambda body: body.split(),
        failed=lambda one, code: (one, code),
    )
    away = ("payments", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert found == [b"READERS", away, b"WRITERS"]
