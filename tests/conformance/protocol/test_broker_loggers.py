"""Broker loggers: levels are described and altered on the wire (KIP-412)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

_BROKER_LOGGER = 8
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_SOURCE = 6
_ROOT = "root"
_LEVELS = {"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}


@pytest.fixture
def node(cluster: Cluster) -> str:
    """The broker that `broker` is connected to."""
    return str(cluster.nodes[0].node_id)


@pytest.fixture
def broker(cluster: Cluster) -> Iterator[RawConnection]:
    """A connection to that broker: in Kafka each one knows its own loggers only."""
    first = cluster.nodes[0]
    with RawConnection(first.host, first.port) as connection:
        yield connection


def _result(connection: RawConnection, node: str) -> Any:
    asked = DescribeConfigsRequestDescribeConfigsResource(_BROKER_LOGGER, node, None)
    return only(connection.ask(DescribeConfigsRequest(resources=[asked]), 4).results)


def _levels(connection: RawConnection, node: str) -> dict[str, str]:
    result = _result(connection, node)
    assert result.error_code == ErrorCode.NONE, result.error_message
    assert {config.config_source for config in result.configs} == {_SOURCE}
    return {config.name: config.value for config in result.configs}


def _alter(
    connection: RawConnection,
    node: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> tuple[int, str | None]:
    wanted = [IncrementalAlterConfigsRequestAlterableConfig(*change) for change in changes]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(_BROKER_LOGGER, node, wanted)
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    result = only(connection.ask(request, 1).responses)
    return result.error_code, result.error_message


def test_a_level_is_set_checked_and_deleted(broker: RawConnection, node: str) -> None:
    before = _levels(broker, node)
    assert set(before.values()) <= _LEVELS
    assert _ROOT in before
    service = next(name for name in sorted(before) if name != _ROOT)
    assert _alter(broker, node, (service, _SET, "FATAL"), validate_only=True) == (0, None)
    assert _levels(broker, node) == before
    assert _alter(broker, node, (service, _SET, "FATAL")) == (0, None)
    try:
        assert _levels(broker, node)[service] == "FATAL"
    finally:
        assert _alter(broker, node, (service, _DELETE, None)) == (0, None)
    assert _levels(broker, node)[service] in {before[_ROOT], before[service]}


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (("no.such.logger", _SET, "INFO"), ErrorCode.INVALID_CONFIG, "does not exist!"),
        (("no.such.logger", _DELETE, None), ErrorCode.INVALID_CONFIG, "does not exist!"),
        ((_ROOT, _SET, "LOUD"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ((_ROOT, _SET, "info"), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ((_ROOT, _DELETE, None), ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        ((_ROOT, _APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed"),
        ((_ROOT, _SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST, "SUBTRACT operation is not"),
    ],
)
def test_refused_levels(
    broker: RawConnection,
    node: str,
    change: tuple[str, int, str | None],
    code: ErrorCode,
    why: str,
) -> None:
    before = _levels(broker, node)
    refused, message = _alter(broker, node, change)
    assert refused == code
    assert why in (message or "")
    assert _levels(broker, node) == before


@pytest.mark.parametrize("name", ["", "4711", "one"])
def test_a_broker_that_does_not_exist(broker: RawConnection, name: str) -> None:
    assert _result(broker, name).error_code == ErrorCode.INVALID_REQUEST
    code, _ = _alter(broker, name, (_ROOT, _SET, "INFO"))
    assert code == ErrorCode.INVALID_REQUEST


def test_alter_configs_does_not_take_loggers(broker: RawConnection, node: str) -> None:
    wanted = [AlterConfigsRequestAlterableConfig(_ROOT, "INFO")]
    resource = AlterConfigsRequestAlterConfigsResource(_BROKER_LOGGER, node, wanted)
    result = only(broker.ask(AlterConfigsRequest([resource]), 2).responses)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Unknown resource type 8"


def test_loggers_are_listed_by_broker(broker: RawConnection, cluster: Cluster) -> None:
    answer = broker.ask(ListConfigResourcesRequest([_BROKER_LOGGER]), 1)
    listed = {(one.resource_type, one.resource_name) for one in answer.config_resources}
    assert listed == {(_BROKER_LOGGER, str(node.node_id)) for node in cluster.nodes}
