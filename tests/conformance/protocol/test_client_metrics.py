"""Client metrics subscriptions: altered, described and listed on the wire (KIP-714, KIP-1142)."""

from __future__ import annotations

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
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_TOPIC, _BROKER, _CLIENT_METRICS = 2, 4, 16
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_OF_SUBSCRIPTION, _DEFAULT = 7, 5
_LATE_S = 10.0
_DEFAULTS = {
    "interval.ms": ("300000", _DEFAULT),
    "match": ("", _DEFAULT),
    "metrics": ("", _DEFAULT),
}


def _alter(
    connection: RawConnection, name: str, *changes: tuple[str, int, str | None]
) -> tuple[int, str | None]:
    wanted = [IncrementalAlterConfigsRequestAlterableConfig(*change) for change in changes]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(_CLIENT_METRICS, name, wanted)
    answer = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    result = only(answer.responses)
    return result.error_code, result.error_message


def _result(connection: RawConnection, name: str) -> Any:
    asked = DescribeConfigsRequestDescribeConfigsResource(_CLIENT_METRICS, name, None)
    return only(connection.ask(DescribeConfigsRequest(resources=[asked]), 4).results)


def _described(connection: RawConnection, name: str) -> dict[str, tuple[str | None, int]]:
    result = _result(connection, name)
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: (config.value, config.config_source) for config in result.configs}


def _listed(connection: RawConnection, *types: int, version: int = 1) -> set[tuple[int, str]]:
    answer = connection.ask(ListConfigResourcesRequest(list(types)), version)
    assert answer.error_code == ErrorCode.NONE
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def test_a_subscription_from_its_first_config_to_its_last(connection: RawConnection) -> None:
    name = unique_name("sub")
    resource = (_CLIENT_METRICS, name)
    assert _described(connection, name) == _DEFAULTS
    assert resource not in _listed(connection, version=0)
    match = "client_id=app-.*, client_software_name=librdkafka"
    new = ("interval.ms", _SET, "1000"), ("match", _SET, match), ("metrics", _SET, "a.,b.")
    assert _alter(connection, name, *new) == (0, None)
    try:
        expected = {
            "interval.ms": ("1000", _OF_SUBSCRIPTION),
            "match": (match.replace(", ", ","), _OF_SUBSCRIPTION),
            "metrics": ("a.,b.", _OF_SUBSCRIPTION),
        }
        _wait(lambda: _described(connection, name) == expected, "the configs")
        assert resource in _listed(connection, version=0)
        assert resource in _listed(connection)
        assert _alter(connection, name, ("metrics", _SET, "b.")) == (0, None)
        only_b = ("b.", _OF_SUBSCRIPTION)
        _wait(lambda: _described(connection, name)["metrics"] == only_b, "the shorter list")
    finally:
        gone = [(key, _DELETE, None) for key in _DEFAULTS]
        assert _alter(connection, name, *gone) == (0, None)
    _wait(lambda: _described(connection, name) == _DEFAULTS, "the defaults")
    _wait(lambda: resource not in _listed(connection, _CLIENT_METRICS), "its end")


def _wait(holds: Any, what: str) -> None:
    wait_until(holds, timeout_s=_LATE_S, what=what)


def test_alter_configs_replaces_all(connection: RawConnection) -> None:
    name = unique_name("sub")
    assert _alter(connection, name, ("interval.ms", _SET, "1000")) == (0, None)

    def replace(**configs: str) -> None:
        wanted = [AlterConfigsRequestAlterableConfig(key, value) for key, value in configs.items()]
        resource = AlterConfigsRequestAlterConfigsResource(_CLIENT_METRICS, name, wanted)
        assert only(connection.ask(AlterConfigsRequest([resource]), 2).responses).error_code == 0

    replace(metrics="*")
    expected = {**_DEFAULTS, "metrics": ("*", _OF_SUBSCRIPTION)}
    _wait(lambda: _described(connection, name) == expected, "the new configs")
    replace()
    _wait(lambda: _described(connection, name) == _DEFAULTS, "the defaults")


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (("no.such", _SET, "1"), ErrorCode.INVALID_REQUEST, "Unknown client metrics config"),
        (("interval.ms", _SET, "99"), ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        (("interval.ms", _SET, "3600001"), ErrorCode.INVALID_REQUEST, "between 100 and 3600000"),
        (("interval.ms", _SET, "soon"), ErrorCode.INVALID_CONFIG, "Not a number of type INT"),
        (("interval.ms", _APPEND, "1"), ErrorCode.INVALID_CONFIG, "is not LIST"),
        (("metrics", _APPEND, "a."), ErrorCode.INVALID_CONFIG, "is not LIST"),
        (("metrics", _SUBTRACT, "a."), ErrorCode.INVALID_CONFIG, "is not LIST"),
        (("match", _SET, "client_id"), ErrorCode.INVALID_CONFIG, "Illegal client matching"),
        (("match", _SET, "colour=red"), ErrorCode.INVALID_CONFIG, "Illegal client matching"),
        (("match", _SET, "client_id=("), ErrorCode.INVALID_CONFIG, "client_id=("),
    ],
)
def test_refused_configs(
    connection: RawConnection, change: tuple[str, int, str], code: ErrorCode, why: str
) -> None:
    name = unique_name("sub")
    refused, message = _alter(connection, name, change)
    assert refused == code
    assert why in (message or "")
    assert _described(connection, name) == _DEFAULTS


def test_a_subscription_needs_a_name(connection: RawConnection) -> None:
    code, message = _alter(connection, "", ("interval.ms", _SET, "1000"))
    assert code == ErrorCode.INVALID_REQUEST
    assert message == "Subscription name can't be empty"
    result = _result(connection, "")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Client metrics subscription name must not be empty"


def test_other_resources_are_listed(
    connection: RawConnection, cluster: Cluster, made_topic: str
) -> None:
    brokers = {(_BROKER, str(node.node_id)) for node in cluster.nodes}
    assert _listed(connection, _BROKER) == brokers
    assert (_TOPIC, made_topic) in _listed(connection, _TOPIC)
    assert _listed(connection) >= brokers | {(_TOPIC, made_topic)}
    unknown = connection.ask(ListConfigResourcesRequest([_TOPIC, 3]), 1)
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list(unknown.config_resources) == []
