"""Broker loggers: which node is asked, and what is said if it cannot be."""

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.broker_loggers import (
    LoggersError,
    alter_loggers,
    logger_levels,
    node_of_loggers,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError, UnreachableError
from highwater.model.ids import InstanceId
from tests.unit.gateway.handlers.fakes import Client, FakeBackend

AWAY = LoggersError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 is not available")


def world():
    backend = FakeBackend()
    return Client(backend).context(32, 4), backend.links[2]


@pytest.mark.parametrize("name", ["", "nine", "9", "-1", "+2"])
def test_the_name_is_that_of_a_broker(name):
    context, _ = world()
    error = node_of_loggers(context, name)
    assert isinstance(error, LoggersError)
    assert error.error_code == ErrorCode.INVALID_REQUEST
    assert node_of_loggers(context, "2") == 2


async def test_the_node_is_asked():
    context, link = world()
    link.answer_loggers = lambda asked: pb.DescribeLoggersResponse(levels={"root": "WARN"})
    assert await logger_levels(context, 2) == {"root": "WARN"}


@pytest.mark.parametrize("validate_only", [False, True])
async def test_levels_are_changed_by_the_node(validate_only):
    context, link = world()
    link.answer_loggers = lambda asked: pb.AlterLoggersResponse()
    levels = {"root": "WARN", "gateway": None}
    assert await alter_loggers(context, 2, levels, validate_only=validate_only) is None
    [(asked, _)] = link.asked
    assert [(c.logger, c.HasField("level"), c.level) for c in asked.changes] == [
        ("root", True, "WARN"),
        ("gateway", False, ""),
    ]
    assert asked.validate_only == validate_only


async def test_only_the_default_instance_changes_them():
    backend = FakeBackend()
    context = Client(backend, instance=InstanceId("shop")).context(32, 4)
    error = await alter_loggers(context, 2, {"root": "WARN"}, validate_only=True)
    assert isinstance(error, LoggersError)
    assert error.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert backend.links[2].asked == []


async def test_the_nodes_refusal_in_its_words():
    context, link = world()
    link.answer_loggers = lambda asked: pb.AlterLoggersResponse(error_code=40, message="why")
    error = await alter_loggers(context, 2, {"x": "INFO"}, validate_only=False)
    assert error == LoggersError(ErrorCode.INVALID_CONFIG, "why")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (UnreachableError("gone"), AWAY),
        (
            HighwaterError("odd"),
            LoggersError(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message),
        ),
    ],
)
async def test_a_node_that_cannot_be_asked(raised, expected):
    context, link = world()

    def fail(asked):
        raise raised

    link.answer_loggers = fail
    assert await logger_levels(context, 2) == expected
    assert await alter_loggers(context, 2, {}, validate_only=False) == expected


async def test_without_a_link():
    context, _ = world()
    context.backend.links.clear()
    assert await logger_levels(context, 2) == AWAY
    assert await alter_loggers(context, 2, {}, validate_only=False) == AWAY
