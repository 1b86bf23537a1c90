import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_config_resources import ListConfigResourcesRequest
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    topic,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TOPICS = [(TOPIC, "orders")]
BROKERS = [(BROKER, "1"), (BROKER, "2"), (BROKER, "3")]
LOGGERS = [(LOGGER, "1"), (LOGGER, "2"), (LOGGER, "3")]
SUBSCRIPTIONS = [(CLIENT_METRICS, "sub")]
GROUPS = [(GROUP, "readers")]


def backend_of():
    subscriptions = {
        ClientMetricsKey(DEFAULT_INSTANCE, "sub"): {"interval.ms": "100"},
        ClientMetricsKey(OTHER, "theirs"): {"interval.ms": "100"},
    }
    groups = {
        GroupConfigKey(DEFAULT_INSTANCE, "readers"): {"consumer.session.timeout.ms": "50000"},
        GroupConfigKey(OTHER, "theirs"): {"consumer.session.timeout.ms": "50000"},
    }
    topics = topic("orders"), topic("secret", instance=OTHER)
    return FakeBackend(image_of(*topics, client_metrics=subscriptions, group_configs=groups))


def listed(response):
    return [(one.resource_type, one.resource_name) for one in response.config_resources]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([], TOPICS + BROKERS + LOGGERS + SUBSCRIPTIONS + GROUPS),
        ([BROKER], BROKERS),
        ([CLIENT_METRICS, TOPIC, CLIENT_METRICS], SUBSCRIPTIONS + TOPICS),
        ([LOGGER, GROUP], LOGGERS + GROUPS),
    ],
)
async def test_resources_by_type(wanted, found):
    response = await Client(backend_of()).call(ListConfigResourcesRequest(wanted), 1)
    assert response.error_code == 0
    assert listed(response) == found


async def test_version_0_lists_client_metrics():
    response = await Client(backend_of()).call(ListConfigResourcesRequest(), 0)
    assert (response.error_code, listed(response)) == (0, SUBSCRIPTIONS)


async def test_other_types_are_not_supported():
    response = await Client(backend_of()).call(ListConfigResourcesRequest([TOPIC, 3]), 1)
    assert (response.error_code, listed(response)) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("version", [0, 1])
async def test_it_needs_describe_configs_on_the_cluster(version):
    backend = backend_of()
    backend.deny((AclOperation.DESCRIBE_CONFIGS, THE_CLUSTER))
    response = await Client(backend).call(ListConfigResourcesRequest(), version)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert listed(response) == []
