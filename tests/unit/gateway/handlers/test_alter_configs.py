import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from highwater.model.acl_operations import AclOperation
from tests.unit.gateway.handlers.fakes import (
    Client,
    FakeBackend,
    a_topic,
)
from tests.unit.gateway.handlers.images import (
    image_of,
    topic,
    topic_id,
)

VERSIONS = range(3)


def ask(*configs, resource=(2, "orders"), validate_only=False):
    changes = [AlterConfigsRequestAlterableConfig(*config) for config in configs]
    return AlterConfigsRequest(
        [AlterConfigsRequestAlterConfigsResource(*resource, changes)], validate_only
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_unnamed_configs_get_their_defaults(version):
    backend = FakeBackend(image_of(topic("orders", configs={"segment.bytes": "5"})))
    response = await Client(backend).call(ask(("retention.ms", "1000")), version)
    [result] = response.responses
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (2, "orders")
    [change] = backend.controller.requests[0].changes
    assert (change.topic_id, change.replace_all) == (topic_id("orders"), True)
    assert (dict(change.set), list(change.deleted)) == ({"retention.ms": "1000"}, [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("configs", "resource", "code"),
    [
        ([("retention.ms", None)], (2, "orders"), ErrorCode.INVALID_REQUEST),
        ([("a", "1"), ("a", "2")], (2, "orders"), ErrorCode.INVALID_REQUEST),
        ([("no.such.config", "1")], (2, "orders"), ErrorCode.INVALID_CONFIG),
        ([("retention.ms", "soon")], (2, "orders"), ErrorCode.INVALID_CONFIG),
        ([("log.retention.ms", "soon")], (4, "1"), ErrorCode.INVALID_REQUEST),
        ([("retention.ms", "1")], (2, "nothing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([("node.id", "1")], (4, "1"), ErrorCode.INVALID_REQUEST),
        ([("root", "INFO")], (8, "1"), ErrorCode.INVALID_REQUEST),
        ([("root", "INFO")], (8, "9"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_changes_that_the_gateway_refuses(version, configs, resource, code):
    backend = FakeBackend(image_of(topic("orders")))
    response = await Client(backend).call(ask(*configs, resource=resource), version)
    assert [result.error_code for result in response.responses] == [code]
    assert backend.controller.requests == []


async def test_validate_only_changes_nothing():
    backend = FakeBackend(image_of(topic("orders")))
    await Client(backend).call(ask(("retention.ms", "1"), validate_only=True), 2)
    assert backend.controller.requests[0].validate_only


async def test_what_is_denied_is_not_altered_and_the_rest_is():
    backend = FakeBackend(image_of(topic("orders"), topic("clicks")))
    backend.deny((AclOperation.ALTER_CONFIGS, a_topic("clicks")))
    wanted = ask(("retention.ms", "1000"))
    denied = ask(("retention.ms", "1000"), resource=(2, "clicks"))
    request = AlterConfigsRequest([*denied.resources, *wanted.resources])
    response = await Client(backend).call(request, 2)
    assert [(one.resource_name, one.error_code) for one in response.responses] == [
        ("clicks", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("orders", 0),
    ]
    [change] = backend.controller.requests[0].changes
    assert change.topic_id == topic_id("orders")
