import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
)
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequestEntityData as Part,
)
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequestEntryData as Entry,
)
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequestOpData as Operation,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER

SET = Operation("producer_byte_rate", 5.0)
REMOVE = Operation("request_percentage", 7.0, remove=True)


def entry(name: str | None, *operations: Operation) -> Entry:
    return Entry([Part("user", name), Part("client-id", None)], list(operations) or [SET])


def outcomes(response):
    return [
        (tuple((p.entity_type, p.entity_name) for p in one.entity), one.error_code)
        for one in response.entries
    ]


def entity(name: str | None):
    return (("client-id", None), ("user", name))


@pytest.mark.parametrize("version", [0, 1])
async def test_the_controller_is_asked_and_the_image_waited_for(version):
    backend = FakeBackend()
    request = AlterClientQuotasRequest([entry("a", SET, REMOVE), entry(None)])
    response = await Client(backend, instance=OTHER).call(request, version)
    assert outcomes(response) == [(entity("a"), 0), (entity(None), 0)]
    assert [one.error_message for one in response.entries] == [None, None]
    (asked,) = backend.controller.requests
    assert asked.instance == OTHER
    (set_, removed), (_,) = (one.operations for one in asked.alterations)
    assert (set_.key, set_.value) == ("producer_byte_rate", 5.0)
    assert (removed.key, removed.HasField("value")) == ("request_percentage", False)
    assert backend.image.client_quotas == {
        ClientQuotaKey(OTHER, entity(name)): {"producer_byte_rate": 5.0} for name in ("a", None)
    }


async def test_errors_are_those_of_the_controller_and_each_entity_is_answered_once():
    backend = FakeBackend()
    client = Client(backend)
    bad = AlterClientQuotasRequest([Entry([Part("user", "bad")], [SET])] * 2, validate_only=True)
    backend.controller.errors["bad"] = (ErrorCode.INVALID_REQUEST, "because")
    response = await client.call(bad, 1)
    assert outcomes(response) == [((("user", "bad"),), ErrorCode.INVALID_REQUEST)]
    assert response.entries[0].error_message == "because"
    assert backend.controller.requests[0].validate_only


async def test_no_controller():
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(AlterClientQuotasRequest([entry("a")]), 1)
    assert outcomes(response) == [(entity("a"), ErrorCode.NOT_CONTROLLER)]


async def test_denied():
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER_CONFIGS, THE_CLUSTER))
    response = await Client(backend).call(AlterClientQuotasRequest([entry("a")]), 1)
    assert outcomes(response) == [(entity("a"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    assert backend.controller.requests == []
