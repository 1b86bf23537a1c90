import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequestComponentData as Component,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)
from tests.unit.gateway.handlers.images import OTHER, image_of

ENTITY = (("client-id", None), ("user", "a"))
QUOTAS = {
    ClientQuotaKey(DEFAULT_INSTANCE, ENTITY): {
        "request_percentage": 0.5,
        "consumer_byte_rate": 2.0,
    },
    ClientQuotaKey(DEFAULT_INSTANCE, (("user", "b"),)): {"consumer_byte_rate": 3.0},
    ClientQuotaKey(OTHER, (("user", "a"),)): {"consumer_byte_rate": 4.0},
}


def backend() -> FakeBackend:
    return FakeBackend(image_of(client_quotas=QUOTAS))


@pytest.mark.parametrize("version", [0, 1])
async def test_entities_that_match(version):
    request = DescribeClientQuotasRequest([Component("user", 0, "a")])
    response = await Client(backend()).call(request, version)
    assert (response.error_code, response.error_message) == (0, ""), "no null, as in Kafka"
    (entry,) = response.entries
    assert tuple((part.entity_type, part.entity_name) for part in entry.entity) == ENTITY
    assert [(value.key, value.value) for value in entry.values] == [
        ("consumer_byte_rate", 2.0),
        ("request_percentage", 0.5),
    ]


@pytest.mark.parametrize(("instance", "values"), [(DEFAULT_INSTANCE, {2.0, 3.0}), (OTHER, {4.0})])
async def test_only_the_instance_of_the_port(instance, values):
    response = await Client(backend(), instance=instance).call(DescribeClientQuotasRequest(), 1)
    assert {
        value.value
        for entry in response.entries
        for value in entry.values
        if value.key == "consumer_byte_rate"
    } == values


async def test_a_filter_that_cannot_be_used():
    request = DescribeClientQuotasRequest([Component("", 0, "a")])
    response = await Client(backend()).call(request, 1)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Invalid empty entity type."
    assert response.entries is None


async def test_denied():
    denied = backend()
    denied.authorizer = DenySome((AclOperation.DESCRIBE_CONFIGS, THE_CLUSTER))
    response = await Client(denied).call(DescribeClientQuotasRequest(), 1)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert response.entries is None
