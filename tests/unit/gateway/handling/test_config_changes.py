import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.api.partition.v1 import partition_service_pb2 as node_pb
from highwater.gateway.handling.config_changes import (
    Assignments,
    Refused,
    ResourceKey,
    alter_resources,
    check_names,
)
from highwater.kafka.error_codes import ErrorCode
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import (
    OTHER,
    image_of,
    topic,
    topic_id,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def set_to(**values):
    given = {name.replace("_", "."): value for name, value in values.items()}
    return lambda target: Assignments(set=given)


async def alter(backend, *plans, validate_only=False):
    context = Client(backend).context(44, 1)
    keyed = [(ResourceKey(*key), plan) for key, plan in plans]
    return await alter_resources(context, keyed, validate_only=validate_only)


def backend_of():
    return FakeBackend(image_of(topic("orders"), topic("secret", instance=OTHER)))


async def test_changes_reach_the_controller_with_ids():
    backend = backend_of()
    outcomes = await alter(
        backend,
        ((TOPIC, "orders"), set_to(retention_ms="1")),
        ((BROKER, "2"), set_to(message_max_bytes="5")),
        ((BROKER, ""), set_to(log_retention_ms="7")),
    )
    assert outcomes == [None, None, None]
    [asked] = backend.controller.requests
    assert (asked.instance, asked.validate_only) == ("default", False)
    of_topic, of_node, of_all = asked.changes
    assert (of_topic.type, of_topic.topic_id) == (pb.CONFIG_RESOURCE_TYPE_TOPIC, topic_id("orders"))
    assert dict(of_topic.set) == {"retention.ms": "1"}
    assert (of_node.type, of_node.node_id) == (pb.CONFIG_RESOURCE_TYPE_NODE, 2)
    assert (of_all.type, of_all.node_id) == (pb.CONFIG_RESOURCE_TYPE_NODE, -1)


async def test_resources_that_cannot_be_changed():
    backend = backend_of()
    outcomes = await alter(
        backend,
        ((TOPIC, "nothing"), set_to(retention_ms="1")),
        ((TOPIC, "secret"), set_to(retention_ms="1")),
        ((BROKER, "9"), set_to(message_max_bytes="1")),
        ((BROKER, "two"), set_to(message_max_bytes="1")),
        ((LOGGER, "9"), set_to(root="DEBUG")),
        ((BROKER, "1"), set_to(node_id="7")),
        ((BROKER, "3"), set_to(no_such_config="7")),
    )
    assert [outcome.error_code for outcome in outcomes] == [3, 3, 42, 42, 42, 42, 42]
    assert backend.controller.requests == []


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        (CLIENT_METRICS, pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS),
        (GROUP, pb.CONFIG_RESOURCE_TYPE_GROUP),
    ],
)
async def test_client_metrics_and_groups_are_the_controllers_matter(kind, sent):
    backend = backend_of()
    backend.controller.errors["bad"] = (ErrorCode.INVALID_CONFIG, "not so")
    outcomes = await alter(
        backend,
        ((kind, "sub"), set_to(interval_ms="soon")),
        ((kind, "bad"), lambda target: Assignments(deleted=["x"], replace_all=True)),
    )
    assert outcomes == [None, Refused(ErrorCode.INVALID_CONFIG, "not so")]
    [asked] = backend.controller.requests
    one, two = asked.changes
    assert (one.type, one.name) == (sent, "sub")
    assert dict(one.set) == {"interval.ms": "soon"}
    assert (two.name, list(two.deleted), two.replace_all) == ("bad", ["x"], True)


async def test_loggers_are_their_nodes_matter():
    backend = backend_of()
    backend.links[2].answer_loggers = lambda asked: node_pb.AlterLoggersResponse()
    backend.links[3].answer_loggers = lambda asked: node_pb.AlterLoggersResponse(
        error_code=ErrorCode.INVALID_CONFIG, message="no such logger"
    )
    outcomes = await alter(
        backend,
        ((LOGGER, "2"), lambda target: Assignments(set={"root": "WARN"}, deleted=["gateway"])),
        ((LOGGER, "3"), set_to(nobody="WARN")),
        ((TOPIC, "orders"), set_to(retention_ms="1")),
        validate_only=True,
    )
    assert outcomes == [None, Refused(ErrorCode.INVALID_CONFIG, "no such logger"), None]
    [(asked, _)] = backend.links[2].asked
    assert {one.logger: one.level for one in asked.changes} == {"root": "WARN", "gateway": ""}
    assert asked.validate_only
    assert len(backend.controller.requests[0].changes) == 1


async def test_a_resource_named_twice():
    backend = backend_of()
    key = (TOPIC, "orders")
    outcomes = await alter(
        backend,
        (key, set_to(retention_ms="1")),
        ((BROKER, "2"), set_to(message_max_bytes="5")),
        (key, set_to(retention_ms="2")),
    )
    assert [outcome and outcome.error_code for outcome in outcomes] == [42, None, 42]
    assert len(backend.controller.requests[0].changes) == 1


async def test_one_refusal_does_not_stop_others():
    backend = backend_of()
    backend.controller.errors[topic_id("orders")] = (ErrorCode.INVALID_CONFIG, "must be positive")
    outcomes = await alter(
        backend,
        ((TOPIC, "orders"), set_to(retention_ms="1")),
        ((BROKER, "2"), set_to(message_max_bytes="5")),
    )
    assert outcomes == [Refused(ErrorCode.INVALID_CONFIG, "must be positive"), None]


async def test_validate_only_changes_nothing():
    backend = backend_of()
    plans = [((TOPIC, "orders"), set_to(retention_ms="1"))]
    assert await alter(backend, *plans, validate_only=True) == [None]
    assert backend.controller.requests[0].validate_only


@pytest.mark.parametrize(
    ("key", "given", "code", "message"),
    [
        ((TOPIC, "orders"), {"no.such": "1"}, 40, "Unknown topic config name: no.such"),
        ((TOPIC, "orders"), {"retention.ms": "soon"}, 40, "retention.ms: Not a number"),
        ((TOPIC, "orders"), {"min.compaction.lag.ms": "9"}, 40, "conflict"),
        ((TOPIC, "orders"), {"remote.storage.enable": "true"}, 40, "Tiered"),
        ((BROKER, "1"), {"log.segment.bytes": "9"}, 42, "log.segment.bytes: Value must be"),
        ((BROKER, "1"), {"min.insync.replicas": "2"}, 42, "all brokers"),
        ((BROKER, ""), {"log.cleaner.threads": "2"}, 42, "dynamically"),
    ],
)
async def test_invalid_configs(key, given, code, message):
    state = topic("orders", configs={"max.compaction.lag.ms": "5"})
    backend = FakeBackend(image_of(state))
    [outcome] = await alter(backend, (key, lambda target: Assignments(set=given)))
    assert outcome.error_code == code
    assert message in outcome.message
    assert backend.controller.requests == []


async def test_a_deleted_config_is_not_validated():
    state = topic("orders", configs={"max.compaction.lag.ms": "5", "odd": "1"})
    wanted = {"min.compaction.lag.ms": "9"}
    for assignments in [
        Assignments(set=wanted, deleted=("max.compaction.lag.ms", "odd", "never.there")),
        Assignments(set=wanted, replace_all=True),
    ]:
        backend = FakeBackend(image_of(state))
        plan = ((TOPIC, "orders"), lambda target, given=assignments: given)
        assert await alter(backend, plan) == [None]


async def test_a_config_deleted_from_a_broker_need_not_be_dynamic():
    """A config that an earlier version stored must be removable."""
    backend = backend_of()
    outcomes = await alter(
        backend,
        ((BROKER, "1"), lambda target: Assignments(deleted=("log.retention.hours",))),
        ((BROKER, ""), lambda target: Assignments(deleted=("log.retention.ms",))),
    )
    assert outcomes == [None, None]


async def test_items_of_a_broker_s_list():
    backend = backend_of()
    policy = {"log.cleanup.policy": "compact"}
    outcomes = await alter(
        backend,
        ((BROKER, "1"), lambda target: Assignments(appended=policy)),
        ((BROKER, ""), lambda target: Assignments(subtracted=policy)),
        ((BROKER, "2"), lambda target: Assignments(appended={"log.dirs": "/more"})),
    )
    assert [outcome and outcome.error_code for outcome in outcomes] == [None, None, 42]
    more, less = backend.controller.requests[0].changes
    assert (dict(more.appended), dict(less.subtracted)) == (policy, policy)


def test_names_and_values():
    assert check_names([("a", False), ("b", False)]) is None
    assert check_names([("a", False), ("a", False)]).error_code == ErrorCode.INVALID_REQUEST
    assert check_names([("a", True)]).error_code == ErrorCode.INVALID_REQUEST
