import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)

VERSIONS = [0, 1]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def ask(*configs, resource=(TOPIC, "orders"), validate_only=False):
    """`configs` are (name, operation, value)."""
    changes = [IncrementalAlterConfigsRequestAlterableConfig(*config) for config in configs]
    return IncrementalAlterConfigsRequest(
        [IncrementalAlterConfigsRequestAlterConfigsResource(*resource, changes)], validate_only
    )


def backend_of(**configs):
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return FakeBackend(image_of(topic("orders", configs=given)))


def change_of(backend):
    [request] = backend.controller.requests
    [change] = request.changes
    return change


@pytest.mark.parametrize("version", VERSIONS)
async def test_set_and_delete(version):
    backend = backend_of()
    response = await Client(backend).call(
        ask(("retention.ms", SET, "1000"), ("segment.bytes", DELETE, None)), version
    )
    [result] = response.responses
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    change = change_of(backend)
    assert change.topic_id == topic_id("orders")
    assert (dict(change.set), list(change.deleted)) == ({"retention.ms": "1000"}, ["segment.bytes"])
    assert not change.replace_all


@pytest.mark.parametrize("version", VERSIONS)
async def test_list_changes_are_left_to_the_controller(version):
    backend = backend_of(cleanup_policy="compact")
    response = await Client(backend).call(
        ask(
            ("cleanup.policy", APPEND, "delete"),
            ("leader.replication.throttled.replicas", SUBTRACT, "0:1,1:2"),
        ),
        version,
    )
    assert response.responses[0].error_code == 0
    change = change_of(backend)
    assert dict(change.appended) == {"cleanup.policy": "delete"}
    assert dict(change.subtracted) == {"leader.replication.throttled.replicas": "0:1,1:2"}
    assert not change.set


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such.list", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such.config", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 7, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("cleanup.policy", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
async def test_changes_that_the_gateway_refuses(configs, code, version):
    backend = backend_of()
    response = await Client(backend).call(ask(*configs), version)
    [result] = response.responses
    assert result.error_code == code
    assert result.error_message
    assert backend.controller.requests == []


@pytest.mark.parametrize(
    ("name", "code"),
    [("log.cleanup.policy", 0), ("log.roll.ms", ErrorCode.INVALID_CONFIG)],
)
async def test_lists_of_brokers_get_items(name, code):
    backend = backend_of()
    request = ask((name, APPEND, "compact"), resource=(BROKER, "1"))
    response = await Client(backend).call(request, 1)
    assert response.responses[0].error_code == code


@pytest.mark.parametrize("version", VERSIONS)
async def test_refusals_of_the_controller(version):
    backend = backend_of()
    backend.controller.errors[topic_id("orders")] = (ErrorCode.INVALID_CONFIG, "not a number")
    response = await Client(backend).call(ask(("retention.ms", SET, "5")), version)
    [result] = response.responses
    assert (result.error_code, result.error_message) == (40, "not a number")


@pytest.mark.parametrize("version", VERSIONS)
async def test_without_a_controller_clients_look_for_it_again(version):
    backend = backend_of()
    backend.controller.raises = UnreachableError("no controller")
    response = await Client(backend).call(ask(("retention.ms", SET, "1")), version)
    assert response.responses[0].error_code == ErrorCode.NOT_CONTROLLER


async def test_validate_only_changes_nothing():
    backend = backend_of()
    await Client(backend).call(ask(("retention.ms", SET, "1"), validate_only=True), 1)
    assert backend.controller.requests[0].validate_only


@pytest.mark.parametrize("version", VERSIONS)
async def test_configs_of_brokers_need_the_cluster(version):
    backend = backend_of()
    backend.deny((AclOperation.ALTER_CONFIGS, THE_CLUSTER))
    changes = ask(("retention.ms", SET, "1")), ask(("node.id", SET, "1"), resource=(BROKER, "1"))
    request = IncrementalAlterConfigsRequest([one.resources[0] for one in changes])
    response = await Client(backend).call(request, version)
    assert [one.error_code for one in response.responses] == [
        0,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ]
    assert change_of(backend).topic_id == topic_id("orders")


@pytest.mark.parametrize("version", VERSIONS)
async def test_client_metrics(version):
    backend = backend_of()
    changes = ("metrics", SET, "a"), ("match", DELETE, None)
    response = await Client(backend).call(ask(*changes, resource=(16, "sub")), version)
    assert [one.error_code for one in response.responses] == [0]
    change = change_of(backend)
    assert (change.name, dict(change.set)) == ("sub", {"metrics": "a"})
    assert list(change.deleted) == ["match"]
    no_list = ask(("metrics", APPEND, "b"), resource=(16, "sub"))
    [refused] = (await Client(backend).call(no_list, version)).responses
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert len(backend.controller.requests) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_groups(version):
    backend = backend_of()
    name = "consumer.session.timeout.ms"
    request = ask((name, SET, "50000"), ("no.such", DELETE, None), resource=(32, "g"))
    response = await Client(backend).call(request, version)
    assert [one.error_code for one in response.responses] == [0]
    change = change_of(backend)
    assert (change.name, dict(change.set)) == ("g", {name: "50000"})
    assert list(change.deleted) == ["no.such"]
    no_list = ask((name, APPEND, "1"), resource=(32, "g"))
    [refused] = (await Client(backend).call(no_list, version)).responses
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert len(backend.controller.requests) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_loggers_of_a_broker(version):
    backend = backend_of()
    backend.links[2].answer_loggers = lambda asked: pb.AlterLoggersResponse()
    logger = (8, "2")
    changes = ask(("root", SET, "WARN"), ("gateway", DELETE, None), resource=logger)
    [result] = (await Client(backend).call(changes, version)).responses
    assert (result.error_code, result.resource_type, result.resource_name) == (0, *logger)
    [(asked, _)] = backend.links[2].asked
    assert {one.logger: one.level for one in asked.changes} == {"root": "WARN", "gateway": ""}
    for operation, verb in ((APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")):
        listed = ask(("root", operation, "WARN"), resource=logger)
        [refused] = (await Client(backend).call(listed, version)).responses
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        why = f"{verb} operation is not allowed for the BROKER_LOGGER resource"
        assert refused.error_message == why
    assert len(backend.links[2].asked) == 1
    assert backend.controller.requests == []
