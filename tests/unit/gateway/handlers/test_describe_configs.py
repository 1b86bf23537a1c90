import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling import config_view
from highwater.gateway.handling.config_view import ConfigEntry
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.config_type import ConfigSource, ConfigType
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.topic_config_table import TOPIC_CONFIGS
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    OTHER,
    group_topic,
    image_of,
    node,
    shared_topic,
    topic,
    with_listener,
)

VERSIONS = range(1, 5)
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def ask(*resources, **fields):
    """`resources` are (type, name) or (type, name, config names)."""
    return DescribeConfigsRequest(
        [
            DescribeConfigsRequestDescribeConfigsResource(*one, *([None] if len(one) == 2 else []))
            for one in resources
        ],
        **fields,
    )


def by_name(result):
    return {config.name: config for config in result.configs}


def backend_of():
    return FakeBackend(
        image_of(
            topic("orders", configs={"cleanup.policy": "compact"}), topic("secret", instance=OTHER)
        )
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_configs_of_a_topic(version):
    response = await Client(backend_of()).call(ask((TOPIC, "orders")), version)
    [result] = response.results
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    configs = by_name(result)
    assert set(configs) == set(TOPIC_CONFIGS)
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.read_only) == ("compact", 1, False)
    assert configs["retention.ms"].config_source == ConfigSource.DEFAULT
    assert policy.config_type == (ConfigType.LIST if version >= 3 else 0)
    assert list(policy.synonyms) == []
    assert not policy.documentation


@pytest.mark.parametrize("version", VERSIONS)
async def test_synonyms_when_asked_for(version):
    response = await Client(backend_of()).call(
        ask((TOPIC, "orders"), include_synonyms=True), version
    )
    policy = by_name(response.results[0])["cleanup.policy"]
    assert [(s.name, s.value, s.source) for s in policy.synonyms] == [
        ("cleanup.policy", "compact", 1),
        ("log.cleanup.policy", "delete", 5),
    ]


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_when_asked_for(version):
    response = await Client(backend_of()).call(
        ask((TOPIC, "orders"), include_documentation=True), version
    )
    assert all(config.documentation for config in response.results[0].configs)


@pytest.mark.parametrize(
    ("names", "count"),
    [(["retention.ms", "segment.bytes", "nothing"], 2), ([], None), (None, None)],
)
async def test_names_narrow_the_answer_and_an_empty_list_does_not(names, count):
    response = await Client(backend_of()).call(ask((TOPIC, "orders", names)), 4)
    configs = by_name(response.results[0])
    if count is None:
        assert len(configs) > 20
    else:
        assert set(configs) == {"retention.ms", "segment.bytes"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_configs_of_a_broker(version):
    response = await Client(backend_of(), node_id=1).call(ask((BROKER, "2")), version)
    [result] = response.results
    configs = by_name(result)
    assert set(configs) == set(BROKER_CONFIGS)
    assert (configs["node.id"].value, configs["node.id"].config_source) == ("2", 4)
    assert configs["log.dirs"].value == "/data/2"
    assert configs["num.partitions"].value == "1"
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["advertised.listeners"].value == "PLAINTEXT://10.1.1.1:9094"
    assert configs["connections.max.idle.ms"].value == "600000"
    assert configs["socket.request.max.bytes"].value == "104857600"
    assert configs["node.id"].read_only
    assert not configs["log.segment.bytes"].read_only
    assert configs["num.partitions"].config_source == ConfigSource.DEFAULT


@pytest.mark.parametrize("listener", ["default", "internal", "no-such"])
async def test_a_broker_has_all_its_advertised_listeners_whoever_asks(listener):
    image = with_listener(image_of(), "internal", "gw-1", 29092)
    client = Client(FakeBackend(image), listener=listener)
    response = await client.call(ask((BROKER, "2", ["advertised.listeners"])), 4)
    configs = by_name(response.results[0])
    told = "PLAINTEXT://10.1.1.1:9094,INTERNAL://gw-1:29094"
    assert {name: one.value for name, one in configs.items()} == {"advertised.listeners": told}


async def test_a_nodes_own_settings_are_described():
    nodes = [node(1), node(2, static_configs={"group.initial.rebalance.delay.ms": "0"})]
    backend = FakeBackend(image_of(nodes=nodes), request_bytes_max=5000, idle_ms_max=7)
    response = await Client(backend).call(ask((BROKER, "1"), (BROKER, "2")), 4)
    one, two = (by_name(result) for result in response.results)
    name = "group.initial.rebalance.delay.ms"
    assert (one[name].value, one[name].config_source) == ("3000", 5)
    assert (two[name].value, two[name].config_source, two[name].read_only) == ("0", 4, True)
    assert two["socket.request.max.bytes"].value == "5000"
    assert two["connections.max.idle.ms"].value == "7"


@pytest.mark.parametrize("name", ["", "2"])
async def test_addresses_of_clients_are_not_told_to_an_instance(name):
    overrides = "max.connections.per.ip.overrides"
    configs = {overrides: "10.0.0.1:5", "max.connections": "9"}
    backend = FakeBackend(image_of(cluster_configs=configs))
    for instance, told in ((DEFAULT_INSTANCE, True), (OTHER, False)):
        response = await Client(backend, instance=instance).call(ask((BROKER, name)), 4)
        found = by_name(response.results[0])
        assert found["max.connections"].value == "9"
        assert (overrides in found) is told


async def test_configs_of_all_brokers():
    backend = FakeBackend(image_of(cluster_configs={"log.retention.ms": "60000"}))
    response = await Client(backend).call(ask((BROKER, "")), 4)
    [config] = response.results[0].configs
    assert (config.name, config.value, config.config_source) == ("log.retention.ms", "60000", 3)


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ((TOPIC, "nothing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "secret"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "no such name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "9"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "one"), ErrorCode.INVALID_REQUEST),
        ((BROKER, "-1"), ErrorCode.INVALID_REQUEST),
        ((LOGGER, "9"), ErrorCode.INVALID_REQUEST),
        ((LOGGER, ""), ErrorCode.INVALID_REQUEST),
        ((CLIENT_METRICS, ""), ErrorCode.INVALID_REQUEST),
        ((GROUP, ""), ErrorCode.INVALID_REQUEST),
        ((99, ""), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_resources_that_have_no_configs(resource, code):
    response = await Client(backend_of()).call(ask(resource, (TOPIC, "orders")), 4)
    refused, fine = response.results
    assert (refused.error_code, refused.configs) == (code, [])
    assert (refused.resource_type, refused.resource_name) == resource
    assert refused.error_message
    assert fine.error_code == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_client_metrics(version):
    given = {"match": "client_id=a, client_source_port=1"}
    keys = [ClientMetricsKey(DEFAULT_INSTANCE, "sub"), ClientMetricsKey(OTHER, "theirs")]
    backend = FakeBackend(image_of(client_metrics=dict.fromkeys(keys, given)))
    request = ask((CLIENT_METRICS, "sub"), (CLIENT_METRICS, "theirs"), include_synonyms=True)
    response = await Client(backend).call(request, version)
    sub, theirs = (by_name(result) for result in response.results)
    assert [(one.name, one.value, one.config_source) for one in sub.values()] == [
        ("interval.ms", "300000", 5),
        ("match", "client_id=a,client_source_port=1", 7),
        ("metrics", "", 5),
    ]
    assert [(one.name, one.source) for one in sub["match"].synonyms] == [("match", 7)]
    assert list(sub["metrics"].synonyms) == []
    assert {one.config_source for one in theirs.values()} == {5}, "of another instance"
    assert not any(one.read_only or one.is_sensitive for one in sub.values())


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups(version):
    given = {"consumer.session.timeout.ms": "50000"}
    keys = [GroupConfigKey(DEFAULT_INSTANCE, "set"), GroupConfigKey(OTHER, "theirs")]
    settings = {"group.consumer.heartbeat.interval.ms": "6000"}
    nodes = [node(1, static_configs=settings), node(2)]
    image = image_of(group_topic((1,)), nodes=nodes, group_configs=dict.fromkeys(keys, given))
    request = ask((GROUP, "set"), (GROUP, "theirs"), include_synonyms=True)
    response = await Client(FakeBackend(image)).call(request, version)
    own, theirs = (by_name(result) for result in response.results)
    assert [(one.name, one.value, one.config_source) for one in own.values()] == [
        ("consumer.heartbeat.interval.ms", "6000", 4),
        ("consumer.session.timeout.ms", "50000", 8),
        ("consumer.assignment.interval.ms", "1000", 5),
    ]
    synonyms = own["consumer.heartbeat.interval.ms"].synonyms
    assert [(one.name, one.value, one.source) for one in synonyms] == [
        ("group.consumer.heartbeat.interval.ms", "6000", 4),
        ("group.consumer.heartbeat.interval.ms", "5000", 5),
    ]
    assert theirs["consumer.session.timeout.ms"].value == "45000", "of another instance"


async def test_a_group_of_another_instance_has_its_coordinators_settings():
    nodes = [
        node(n, static_configs={"group.consumer.heartbeat.interval.ms": f"{n}000"}) for n in (6, 7)
    ]
    topics = (group_topic((6,)), shared_topic("__consumer_offsets", (7,)))
    backend = FakeBackend(image_of(*topics, nodes=nodes))
    for instance, value in ((DEFAULT_INSTANCE, "6000"), (OTHER, "7000")):
        [result] = (await Client(backend, instance=instance).call(ask((GROUP, "g")), 4)).results
        assert by_name(result)["consumer.heartbeat.interval.ms"].value == value


@pytest.mark.parametrize("topics", [(), (group_topic((2,)),), (group_topic((-1,)),)])
async def test_a_group_has_the_defaults_of_its_coordinator(topics):
    nodes = [node(1, static_configs={"group.consumer.session.timeout.ms": "6000"}), node(2)]
    backend = FakeBackend(image_of(*topics, nodes=nodes))
    [result] = (await Client(backend).call(ask((GROUP, "g")), 4)).results
    assert by_name(result)["consumer.session.timeout.ms"].value == "45000"


@pytest.mark.parametrize("version", VERSIONS)
async def test_loggers_of_a_broker(version):
    backend = backend_of()
    levels = {"root": "INFO", "gateway": "DEBUG"}
    backend.links[2].answer_loggers = lambda asked: pb.DescribeLoggersResponse(levels=levels)
    request = ask((LOGGER, "2"), (LOGGER, "2", ["root"]), (LOGGER, "1"))
    backend.links.pop(1)
    response = await Client(backend).call(request, version)
    both, root, away = response.results
    assert [(one.name, one.value, one.config_source) for one in both.configs] == [
        ("gateway", "DEBUG", 6),
        ("root", "INFO", 6),
    ]
    assert list(by_name(root)) == ["root"]
    assert (away.error_code, away.configs) == (ErrorCode.BROKER_NOT_AVAILABLE, [])


async def test_sensitive_values_are_hidden(monkeypatch):
    secret = ConfigEntry(
        name="ssl.key.password",
        value="hunter2",
        type=ConfigType.PASSWORD,
        source=ConfigSource.STATIC_BROKER,
        read_only=True,
        sensitive=True,
        documentation="",
        synonyms=(config_view.ConfigSynonym("ssl.key.password", "hunter2", ConfigSource.DEFAULT),),
    )
    monkeypatch.setattr(
        "highwater.gateway.handlers.describe_configs.topic_entries", lambda image, topic: [secret]
    )
    request = ask((TOPIC, "orders"), include_synonyms=True)
    response = await Client(backend_of()).call(request, 4)
    [config] = response.results[0].configs
    assert (config.value, config.is_sensitive) == (None, True)
    assert [synonym.value for synonym in config.synonyms] == [None]


@pytest.mark.parametrize("version", VERSIONS)
async def test_configs_that_may_not_be_described(version):
    backend = backend_of()
    backend.deny(
        (AclOperation.DESCRIBE_CONFIGS, THE_CLUSTER),
        (AclOperation.DESCRIBE_CONFIGS, a_topic("nothing")),
    )
    request = ask((BROKER, "1"), (TOPIC, "nothing"), (TOPIC, "orders"), (BROKER, ""))
    response = await Client(backend).call(request, version)
    assert [(one.resource_name, one.error_code) for one in response.results] == [
        ("1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("nothing", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("orders", 0),
        ("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]
    assert [bool(one.configs) for one in response.results] == [False, False, True, False]
