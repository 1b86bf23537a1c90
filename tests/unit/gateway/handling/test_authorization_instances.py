"""What clients of another instance than the default one see and may do, over all APIs."""

from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.apis import APIS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.kafka.messages.describe_acls import DescribeAclsRequest
from highwater.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from highwater.kafka.messages.describe_cluster import DescribeClusterRequest
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from highwater.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.list_config_resources import ListConfigResourcesRequest
from highwater.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.config_type import ConfigResourceType
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId
from highwater.model.instances import InstanceListener, InstanceState
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    partition,
    topic,
    transaction_topic,
)
from tests.unit.gateway.handlers.samples import error_codes, sample_request

TENANT = InstanceId("tenant")
SECRET = "secret"
REFUSED = {
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UPDATE_FEATURES,
}
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def image():
    """The default instance has something of everything, all of it named `secret...`."""
    moving = partition(0, 1, replicas=(NodeId(1), NodeId(2)), adding_replicas=(NodeId(2),))
    acl = Acl(DEFAULT_INSTANCE, 2, 3, SECRET, f"User:{SECRET}", "*", 3, 3)
    quota = ClientQuotaKey(DEFAULT_INSTANCE, (("user", SECRET),))
    return image_of(
        replace(topic(SECRET), partitions=(moving,)),
        replace(topic("own"), instance=TENANT),
        group_topic(),
        transaction_topic(),
        instances={
            TENANT: InstanceState(instance=TENANT, listeners=(InstanceListener(port=20000),))
        },
        acls=frozenset((acl,)),
        client_quotas={quota: {"producer_byte_rate": 1.0}},
        client_metrics={ClientMetricsKey(DEFAULT_INSTANCE, SECRET): {"interval.ms": "100"}},
        group_configs={GroupConfigKey(DEFAULT_INSTANCE, SECRET): {"x": "1"}},
    )


@pytest.fixture
def backend():
    made = FakeBackend(image(), has_acls=True)
    made.coordinate(lambda call: (ErrorCode.COORDINATOR_NOT_AVAILABLE, b""))
    return made


@pytest.fixture
def tenant(backend):
    return Client(backend, instance=TENANT)


NEWEST = [pytest.param(api, id=api.module) for api in APIS.values() if api.module]


@pytest.mark.parametrize("api", NEWEST)
async def test_what_all_instances_share_is_a_matter_of_the_default_one(backend, tenant, api):
    request = sample_request(api.key, api.max_version)
    response = await tenant.call(request, api.max_version)
    refused = api.key in REFUSED
    assert (CLUSTER_DENIED in error_codes(response)) is refused
    if refused:
        assert backend.controller.requests == []
        assert not any(link.asked for link in backend.links.values())


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MetadataRequest(topics=None), 12),
        (DescribeTopicPartitionsRequest(), 0),
        (ListPartitionReassignmentsRequest(topics=None), 0),
        (ListConfigResourcesRequest(), 1),
        (DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3),
        (DescribeClientQuotasRequest(), 1),
        (DescribeClusterRequest(), 2),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, int) else str(one),
)
async def test_lists_have_what_is_of_the_instance(backend, tenant, request_, version):
    response = repr(await tenant.call(request_, version))
    assert SECRET not in response
    assert "__" not in response
    if not isinstance(request_, DescribeClusterRequest):
        assert SECRET in repr(await Client(backend).call(request_, version)), "the test can fail"


async def test_addresses_are_those_of_the_instance(tenant):
    for request, version in ((MetadataRequest(topics=None), 12), (DescribeClusterRequest(), 2)):
        response = await tenant.call(request, version)
        assert [each.port for each in response.brokers] == [20001, 20002, 20003]


async def test_topics_of_another_instance_are_unknown_by_id(tenant):
    secret = topic(SECRET).topic_id
    asked = MetadataRequestMetadataRequestTopic(topic_id=secret, name=None)
    (found,) = (await tenant.call(MetadataRequest(topics=[asked]), 12)).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    state = DeleteTopicsRequestDeleteTopicState(name=None, topic_id=secret)
    (deleted,) = (await tenant.call(DeleteTopicsRequest(topics=[state]), 6)).responses
    assert deleted.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_the_space_of_directories_is_not_told(backend, tenant):
    for link in backend.links.values():
        link.answer_log_dirs = lambda _asked: pb.DescribeLogDirsResponse(
            dirs=[pb.LogDirDescription(path="/data", total_bytes=1000, usable_bytes=400)]
        )
    for client, told in ((tenant, (-1, -1)), (Client(backend), (1000, 400))):
        response = await client.call(DescribeLogDirsRequest(None), 4)
        assert {(one.total_bytes, one.usable_bytes) for one in response.results} == {told}


BROKER, LOGGER = ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER


@pytest.mark.parametrize("kind", [BROKER, LOGGER])
@pytest.mark.parametrize("name", ["", "1"])
async def test_brokers_are_not_altered(backend, tenant, kind, name):
    whole = AlterConfigsRequest([AlterConfigsRequestAlterConfigsResource(kind, name, [])])
    single = IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequestAlterConfigsResource(kind, name, [])]
    )
    for request, version in ((whole, 2), (single, 1)):
        (answer,) = (await tenant.call(request, version)).responses
        assert answer.error_code == CLUSTER_DENIED
    assert backend.controller.requests == []


async def test_brokers_are_described_with_the_instance_s_addresses_and_loggers_are_not(tenant):
    asked = [
        DescribeConfigsRequestDescribeConfigsResource(kind, "1", None) for kind in (BROKER, LOGGER)
    ]
    broker, loggers = (await tenant.call(DescribeConfigsRequest(asked), 4)).results
    assert loggers.error_code == CLUSTER_DENIED
    values = {one.name: one.value for one in broker.configs}
    assert values["advertised.listeners"] == "PLAINTEXT://10.1.1.1:20001"


async def test_configs_of_another_instance_s_topic_are_not_there(tenant):
    asked = [DescribeConfigsRequestDescribeConfigsResource(ConfigResourceType.TOPIC, SECRET, None)]
    (answer,) = (await tenant.call(DescribeConfigsRequest(asked), 4)).results
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
