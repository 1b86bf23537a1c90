"""Authorization that handlers share, and the proof that each API asks for it."""

from itertools import product

import pytest

from highwater.gateway.handling.apis import APIS
from highwater.gateway.handling.authorization import (
    allowed_on_group,
    cluster_operations,
    config_denial,
    denied_groups,
    denied_topics,
    group_operations,
    topic_operations,
)
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
)
from highwater.model.authorization import THE_CLUSTER, Resource, ResourceType
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_group,
    a_topic,
    a_transaction,
)
from tests.unit.gateway.handlers.images import (
    group_topic,
    image_of,
    topic,
)
from tests.unit.gateway.handlers.samples import GROUP, TOPIC, TRANSACTIONAL_ID, sample_request

DELEGATION_TOKENS = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)
"""There are none, whoever asks."""
ASKING_NOBODY = {
    ApiKey.API_VERSIONS,
    ApiKey.LIST_TRANSACTIONS,  # Each transaction is asked for, and there is none.
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    *DELEGATION_TOKENS,
}
EVERYTHING = [*product(AclOperation, ResourceType)]


def context_of(*denied):
    backend = FakeBackend()
    return Client(backend).context(3, 9), backend.deny(*denied)


def test_denied_names():
    read = AclOperation.READ
    context, authorizer = context_of((read, a_topic("a")), (read, a_group("b")))
    assert denied_topics(context, read, iter("aba")) == {"a"}
    assert denied_groups(context, read, iter("aba")) == {"b"}
    assert [resource for _, _, resource in authorizer.asked] == [
        a_topic("a"),
        a_topic("b"),
        a_group("a"),
        a_group("b"),
    ]
    assert (allowed_on_group(context, read, "a"), allowed_on_group(context, read, "b")) == (1, 0)
    assert {who for who, _, _ in authorizer.asked} == {context.client.requester}


def test_authorized_operations_without_an_authorizer():
    context = Client(FakeBackend()).context(3, 9)
    assert topic_operations(context, "x") == TOPIC_OPERATIONS
    assert group_operations(context, "x") == GROUP_OPERATIONS
    assert cluster_operations(context) == CLUSTER_OPERATIONS


def test_only_operations_that_the_resource_supports_are_asked_for():
    context, authorizer = context_of((AclOperation.DELETE, a_group("x")))
    assert group_operations(context, "x") == GROUP_OPERATIONS - (1 << AclOperation.DELETE)
    assert {operation for _, operation, _ in authorizer.asked} == {
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }


@pytest.mark.parametrize(
    ("resource_type", "name", "resource", "code"),
    [
        (2, "orders", a_topic("orders"), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (4, "1", THE_CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (4, "", THE_CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (8, "1", THE_CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (16, "sub", THE_CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (32, "readers", a_group("readers"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_configs_belong_to_the_topic_the_group_or_the_cluster(resource_type, name, resource, code):
    operation = AclOperation.ALTER_CONFIGS
    context, _ = context_of((operation, resource))
    assert config_denial(context, operation, resource_type, name) is code
    assert config_denial(context, AclOperation.DESCRIBE_CONFIGS, resource_type, name) == 0


def test_an_unknown_kind_of_configs_is_not_a_matter_of_authorization():
    context, authorizer = context_of(*EVERYTHING)
    assert config_denial(context, AclOperation.ALTER_CONFIGS, 77, "x") == 0
    assert authorizer.asked == []


_GROUP = a_group(GROUP)
_TOPIC = a_topic(TOPIC)
_TRANSACTION = a_transaction(TRANSACTIONAL_ID)
_OP = AclOperation
ASKED = {
    ApiKey.LIST_OFFSETS: [(_OP.DESCRIBE, _TOPIC)],
    ApiKey.METADATA: [(_OP.DESCRIBE, _TOPIC)],
    ApiKey.OFFSET_COMMIT: [(_OP.READ, _GROUP)],
    ApiKey.OFFSET_FETCH: [(_OP.DESCRIBE, _GROUP)],
    ApiKey.FIND_COORDINATOR: [(_OP.DESCRIBE, _GROUP)],
    ApiKey.JOIN_GROUP: [(_OP.READ, _GROUP)],
    ApiKey.HEARTBEAT: [(_OP.READ, _GROUP)],
    ApiKey.LEAVE_GROUP: [(_OP.READ, _GROUP)],
    ApiKey.SYNC_GROUP: [(_OP.READ, _GROUP)],
    ApiKey.DESCRIBE_GROUPS: [(_OP.DESCRIBE, _GROUP)],
    ApiKey.LIST_GROUPS: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.SASL_HANDSHAKE: [],
    ApiKey.API_VERSIONS: [],
    ApiKey.SASL_AUTHENTICATE: [],
    **{key: [] for key in DELEGATION_TOKENS},
    ApiKey.CREATE_TOPICS: [(_OP.CREATE, THE_CLUSTER), (_OP.CREATE, _TOPIC)],
    ApiKey.DELETE_TOPICS: [
        (_OP.DELETE, THE_CLUSTER),
        (_OP.DELETE, _TOPIC),
        (_OP.DESCRIBE, _TOPIC),
    ],
    ApiKey.DELETE_RECORDS: [(_OP.DELETE, _TOPIC)],
    ApiKey.INIT_PRODUCER_ID: [
        (_OP.IDEMPOTENT_WRITE, THE_CLUSTER),
        (_OP.WRITE, ResourceType.TOPIC),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [(_OP.CLUSTER_ACTION, THE_CLUSTER), (_OP.DESCRIBE, _TOPIC)],
    ApiKey.DESCRIBE_CONFIGS: [(_OP.DESCRIBE_CONFIGS, _TOPIC)],
    ApiKey.ALTER_CONFIGS: [(_OP.ALTER_CONFIGS, _TOPIC)],
    ApiKey.ALTER_REPLICA_LOG_DIRS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DESCRIBE_LOG_DIRS: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.CREATE_PARTITIONS: [(_OP.ALTER, _TOPIC)],
    ApiKey.DELETE_GROUPS: [(_OP.DELETE, _GROUP)],
    ApiKey.ELECT_LEADERS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [(_OP.ALTER_CONFIGS, _TOPIC)],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.OFFSET_DELETE: [(_OP.DELETE, _GROUP)],
    ApiKey.DESCRIBE_ACLS: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.CREATE_ACLS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DELETE_ACLS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DESCRIBE_CLIENT_QUOTAS: [(_OP.DESCRIBE_CONFIGS, THE_CLUSTER)],
    ApiKey.ALTER_CLIENT_QUOTAS: [(_OP.ALTER_CONFIGS, THE_CLUSTER)],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DESCRIBE_QUORUM: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.UPDATE_FEATURES: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DESCRIBE_CLUSTER: [(_OP.DESCRIBE, THE_CLUSTER)],
    ApiKey.UNREGISTER_BROKER: [(_OP.ALTER, THE_CLUSTER)],
    ApiKey.DESCRIBE_PRODUCERS: [(_OP.READ, _TOPIC)],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [(_OP.READ, _GROUP)],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [(_OP.DESCRIBE, _GROUP)],
    ApiKey.LIST_CONFIG_RESOURCES: [(_OP.DESCRIBE_CONFIGS, THE_CLUSTER)],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: [(_OP.DESCRIBE, _TOPIC)],
    ApiKey.ADD_PARTITIONS_TO_TXN: [(_OP.WRITE, _TRANSACTION)],
    ApiKey.ADD_OFFSETS_TO_TXN: [(_OP.WRITE, _TRANSACTION)],
    ApiKey.END_TXN: [(_OP.WRITE, _TRANSACTION)],
    ApiKey.WRITE_TXN_MARKERS: [(_OP.ALTER, THE_CLUSTER), (_OP.CLUSTER_ACTION, THE_CLUSTER)],
    ApiKey.TXN_OFFSET_COMMIT: [(_OP.WRITE, _TRANSACTION)],
    ApiKey.DESCRIBE_TRANSACTIONS: [(_OP.DESCRIBE, _TRANSACTION)],
    ApiKey.LIST_TRANSACTIONS: [],  # Transactions are left out, and there is none.
}
"""What each API asks for its sample request if everything is denied, in this order."""


def asked_of(api_key, version):
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN and version >= 4:
        return [(_OP.CLUSTER_ACTION, THE_CLUSTER)]
    return ASKED[api_key]


SERVED = [
    pytest.param(api, version, id=f"{api.module}-v{version}")
    for api in APIS.values()
    if api.module
    for version in range(api.served_from, api.max_version + 1)
]
"""Produce and Fetch have tests of their own paths."""


def test_every_api_is_in_the_table():
    assert set(ASKED) | {ApiKey.PRODUCE, ApiKey.FETCH} == set(APIS)


def question(api_key, version):
    request = sample_request(api_key, version)
    if api_key == ApiKey.DESCRIBE_CLUSTER:
        request.include_cluster_authorized_operations = True  # All else may be seen by everybody.
    return request


@pytest.mark.parametrize(("api", "version"), SERVED)
async def test_every_api_asks_and_does_nothing_that_is_denied(api, version):
    backend = FakeBackend(image_of(group_topic(), topic(TOPIC)))
    backend.coordinate(lambda call: (ErrorCode.COORDINATOR_NOT_AVAILABLE, b""))
    authorizer = backend.deny(*EVERYTHING)
    client = Client(backend)
    response = await client.call(question(api.key, version), version)
    assert [one[1:] for one in authorizer.asked] == asked_of(api.key, version)
    assert backend.controller.requests == []
    assert not any(link.asked for link in backend.links.values())
    if api.key != ApiKey.LIST_GROUPS:  # Which filters what it has got.
        assert backend.coordinator_calls() == []
    assert response is not None


@pytest.mark.parametrize(("api", "version"), SERVED)
async def test_no_api_asks_twice_for_the_same(api, version):
    backend = FakeBackend(image_of(group_topic(), topic(TOPIC)))
    backend.coordinate(lambda call: (ErrorCode.COORDINATOR_NOT_AVAILABLE, b""))
    authorizer = backend.deny((AclOperation.DELETE, Resource(ResourceType.USER, "nobody")))
    await Client(backend).call(question(api.key, version), version)
    asked = [one[1:] for one in authorizer.asked]
    # DESCRIBE decides what is told, and is one of the operations that are told.
    if api.key not in (ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        assert len(asked) == len(set(asked))
    assert bool(asked) == (api.key not in ASKING_NOBODY)
