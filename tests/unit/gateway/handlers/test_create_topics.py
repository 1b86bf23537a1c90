import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from highwater.model.errors import UnreachableError
from highwater.model.topic_config_table import TOPIC_CONFIGS
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import OTHER, topic_id
from tests.unit.gateway.quota.fake_quota import Owing

VERSIONS = range(2, 8)
NEW = CreateTopicsRequestCreatableTopic


def ask(*topics, validate_only=False, timeout_ms=500):
    return CreateTopicsRequest(topics, timeout_ms, validate_only)


def codes(response):
    return [(t.name, t.error_code) for t in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
async def test_topics_are_created_and_described(version):
    backend = FakeBackend()
    configs = [CreateTopicsRequestCreatableTopicConfig("retention.ms", "1000")]
    response = await Client(backend).call(ask(NEW("clicks", 3, 1, configs=configs)), version)
    [created] = response.topics
    assert (created.name, created.error_code, created.error_message) == ("clicks", 0, None)
    assert created.topic_id == (topic_id("clicks") if version >= 7 else bytes(16))
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (3, 1)
        told = {c.name: (c.value, c.config_source) for c in created.configs}
        assert told["retention.ms"] == ("1000", 1)
        assert told["cleanup.policy"] == ("delete", 5)
        assert told["record.validation"] == ("header", 5)
        assert set(told) == set(TOPIC_CONFIGS)
        assert told["segment.bytes"] == ("1073741824", 5)
    [asked] = backend.controller.requests
    assert (asked.instance, asked.validate_only, asked.timeout_ms) == ("default", False, 500)
    [wish] = asked.topics
    assert (wish.partitions, wish.replication_factor, wish.internal) == (3, 1, False)
    assert dict(wish.configs) == {"retention.ms": "1000"}
    assert backend.image.topic("clicks") is not None


async def test_the_topic_is_visible_when_the_answer_comes():
    backend = FakeBackend()
    client = Client(backend)
    await client.call(ask(NEW("clicks", 3, 1)), 7)
    assert backend.routing.topic(client.info.instance, "clicks") is not None


@pytest.mark.parametrize("version", VERSIONS)
async def test_counts_left_open_are_the_gateway_s_defaults(version):
    backend = FakeBackend(partitions_default=6, replication_factor_default=2)
    await Client(backend).call(ask(NEW("clicks", -1, -1)), version)
    [wish] = backend.controller.requests[0].topics
    assert (wish.partitions, wish.replication_factor) == (6, 2)


@pytest.mark.parametrize("version", VERSIONS)
async def test_manual_replica_assignments(version):
    backend = FakeBackend()
    assignments = [CreateTopicsRequestCreatableReplicaAssignment(n, [n + 1, 3]) for n in range(2)]
    await Client(backend).call(ask(NEW("clicks", -1, -1, assignments)), version)
    [wish] = backend.controller.requests[0].topics
    assert (wish.partitions, wish.replication_factor) == (-1, -1)
    assert [(a.partition, list(a.replicas)) for a in wish.assignments] == [(0, [1, 3]), (1, [2, 3])]


async def test_a_negative_partition_is_refused():
    backend = FakeBackend()
    assignments = [CreateTopicsRequestCreatableReplicaAssignment(-1, [1])]
    response = await Client(backend).call(ask(NEW("clicks", -1, -1, assignments)), 7)
    assert codes(response) == [("clicks", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_name_given_twice_is_refused_once(version):
    backend = FakeBackend()
    response = await Client(backend).call(
        ask(NEW("clicks", 3, 1), NEW("orders", 1, 1), NEW("clicks", 1, 1)), version
    )
    assert codes(response) == [("clicks", ErrorCode.INVALID_REQUEST), ("orders", 0)]
    assert [wish.name for wish in backend.controller.requests[0].topics] == ["orders"]


async def test_a_config_without_value_is_refused():
    configs = [CreateTopicsRequestCreatableTopicConfig("retention.ms", None)]
    response = await Client(FakeBackend()).call(ask(NEW("clicks", 3, 1, configs=configs)), 7)
    assert codes(response) == [("clicks", ErrorCode.INVALID_CONFIG)]
    assert "retention.ms" in response.topics[0].error_message


@pytest.mark.parametrize("version", VERSIONS)
async def test_refusals_of_the_controller_reach_the_client(version):
    backend = FakeBackend()
    backend.controller.errors["clicks"] = (ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")
    response = await Client(backend).call(ask(NEW("clicks", 3, 1), NEW("orders", 1, 1)), version)
    assert codes(response) == [("clicks", 36), ("orders", 0)]
    assert response.topics[0].error_message == "it is there"


@pytest.mark.parametrize("version", VERSIONS)
async def test_validate_only_changes_nothing(version):
    backend = FakeBackend()
    response = await Client(backend).call(ask(NEW("clicks", 3, 1), validate_only=True), version)
    assert codes(response) == [("clicks", 0)]
    assert backend.controller.requests[0].validate_only
    assert backend.image.topic("clicks") is None


async def test_topics_are_made_in_the_instance_of_the_port():
    backend = FakeBackend()
    await Client(backend, instance=OTHER).call(ask(NEW("clicks", 3, 1)), 7)
    assert backend.controller.requests[0].instance == OTHER
    assert backend.image.topic("clicks") is None
    assert backend.image.topic("clicks", OTHER) is not None


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_controller_clients_look_for_it_again(version):
    backend = FakeBackend()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(ask(NEW("clicks", 3, 1)), version)
    assert codes(response) == [("clicks", ErrorCode.NOT_CONTROLLER)]


async def test_an_empty_request_makes_no_call():
    backend = FakeBackend()
    assert codes(await Client(backend).call(ask(), 7)) == []
    assert backend.controller.requests == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_topics_that_may_be_created_are(version):
    backend = FakeBackend()
    backend.deny((AclOperation.CREATE, THE_CLUSTER), (AclOperation.CREATE, a_topic("clicks")))
    response = await Client(backend).call(ask(NEW("clicks", 1, 1), NEW("orders", 1, 1)), version)
    assert codes(response) == [("clicks", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("orders", 0)]
    [asked] = backend.controller.requests
    assert [wish.name for wish in asked.topics] == ["orders"]


async def test_who_may_create_in_the_cluster_may_create_every_topic():
    backend = FakeBackend()
    backend.deny((AclOperation.CREATE, ResourceType.TOPIC))
    assert codes(await Client(backend).call(ask(NEW("clicks", 1, 1)), 7)) == [("clicks", 0)]


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_configs_that_may_not_be_described_are_not_told(version):
    backend = FakeBackend()
    backend.deny((AclOperation.DESCRIBE_CONFIGS, a_topic("clicks")))
    response = await Client(backend).call(ask(NEW("clicks", 2, 1), NEW("orders", 2, 1)), version)
    hidden, told = response.topics
    assert (hidden.error_code, hidden.configs) == (0, [])
    assert hidden.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (hidden.num_partitions, hidden.replication_factor) == (-1, -1)
    assert (told.topic_config_error_code, told.num_partitions) == (0, 2)
    assert told.configs


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_owes_partitions_creates_no_more(version):
    backend = FakeBackend(partitions_default=6)
    client = Client(backend)
    client.quota = owing = Owing()
    assignments = [CreateTopicsRequestCreatableReplicaAssignment(n, [1]) for n in range(4)]
    topics = (
        NEW("a", 3, 1),
        NEW("b", -1, 1),
        NEW("c", -1, -1, assignments),
        NEW("d", 0, 1),
        NEW("d"),
    )
    response = await client.call(ask(*topics), version)
    strict = version >= 6
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED if strict else 0
    assert codes(response) == [("a", 0), ("b", code), ("c", code), ("d", ErrorCode.INVALID_REQUEST)]
    assert owing.asked == [(3, strict), (6, strict), (4, strict)], "a refused one takes nothing"
    assert response.topics[1].error_message == (code.message if strict else None)
