"""Configs of groups: altered, described and listed on the wire (config resources of type 32)."""

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
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_BROKER, _GROUP = 4, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_OF_GROUP, _OF_ALL_BROKERS, _DEFAULT = 8, 3, 5
_INT = 3
_LATE_S = 10.0
_HEARTBEAT, _SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
_ASSIGNMENT = "consumer.assignment.interval.ms"
_ASSIGNMENT_OF_BROKERS = "group.consumer.assignment.interval.ms"
_DEFAULTS = {_HEARTBEAT: ("5000", _DEFAULT), _SESSION: ("45000", _DEFAULT)}


def _alter(
    connection: RawConnection,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = _GROUP,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    wanted = [IncrementalAlterConfigsRequestAlterableConfig(*change) for change in changes]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(kind, name, wanted)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    result = only(connection.ask(request, 1).responses)
    return result.error_code, result.error_message


def _result(connection: RawConnection, group: str) -> Any:
    asked = DescribeConfigsRequestDescribeConfigsResource(_GROUP, group, None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    return only(connection.ask(request, 4).results)


def _configs(connection: RawConnection, group: str) -> dict[str, Any]:
    """Those of both; Kafka has more, of which ours does not know."""
    result = _result(connection, group)
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs if config.name in _DEFAULTS}


def _described(connection: RawConnection, group: str) -> dict[str, tuple[str | None, int]]:
    found = _configs(connection, group)
    return {name: (config.value, config.config_source) for name, config in found.items()}


def _listed(connection: RawConnection, *types: int) -> set[tuple[int, str]]:
    answer = connection.ask(ListConfigResourcesRequest(list(types)), 1)
    assert answer.error_code == ErrorCode.NONE
    return {(one.resource_type, one.resource_name) for one in answer.config_resources}


def _wait(holds: Any, what: str) -> None:
    wait_until(holds, timeout_s=_LATE_S, what=what)


def test_a_group_from_its_first_config_to_its_last(connection: RawConnection) -> None:
    group = unique_name("group")
    resource = (_GROUP, group)
    assert _described(connection, group) == _DEFAULTS
    assert resource not in _listed(connection, _GROUP)
    new = (_SESSION, _SET, "50000"), (_HEARTBEAT, _SET, "6000")
    assert _alter(connection, group, *new, validate_only=True) == (0, None)
    assert _alter(connection, group, *new) == (0, None)
    try:
        expected = {_SESSION: ("50000", _OF_GROUP), _HEARTBEAT: ("6000", _OF_GROUP)}
        _wait(lambda: _described(connection, group) == expected, "the configs")
        assert resource in _listed(connection, _GROUP)
        assert resource in _listed(connection)
        assert _alter(connection, group, (_SESSION, _DELETE, None)) == (0, None)
        expected = {_SESSION: ("45000", _DEFAULT), _HEARTBEAT: ("6000", _OF_GROUP)}
        _wait(lambda: _described(connection, group) == expected, "the broker's timeout")
    finally:
        gone = [(key, _DELETE, None) for key in _DEFAULTS]
        assert _alter(connection, group, *gone) == (0, None)
    _wait(lambda: _described(connection, group) == _DEFAULTS, "the defaults")
    _wait(lambda: resource not in _listed(connection, _GROUP), "its end")


def test_the_brokers_configs_stand_behind_those_of_a_group(connection: RawConnection) -> None:
    group = unique_name("group")
    assert _alter(connection, group, (_SESSION, _SET, "50000")) == (0, None)
    try:
        _wait(lambda: _described(connection, group)[_SESSION][1] == _OF_GROUP, "the config")
        found = _configs(connection, group)
        synonyms = {
            name: [(one.name, one.value, one.source) for one in config.synonyms]
            for name, config in found.items()
        }
        assert synonyms == {
            _SESSION: [
                (_SESSION, "50000", _OF_GROUP),
                ("group.consumer.session.timeout.ms", "45000", _DEFAULT),
            ],
            _HEARTBEAT: [("group.consumer.heartbeat.interval.ms", "5000", _DEFAULT)],
        }
        for config in found.values():
            assert config.config_type == _INT
            assert not config.read_only
            assert not config.is_sensitive
    finally:
        assert _alter(connection, group, (_SESSION, _DELETE, None)) == (0, None)


def test_brokers_may_change_the_assignment_interval(connection: RawConnection) -> None:
    group = unique_name("group")

    def first_synonym() -> tuple[str, str | None, int]:
        result = _result(connection, group)
        assert result.error_code == ErrorCode.NONE, result.error_message
        (config,) = (one for one in result.configs if one.name == _ASSIGNMENT)
        first = config.synonyms[0]
        assert config.value == first.value
        return first.name, first.value, first.source

    def alter_brokers(*change: Any) -> tuple[int, str | None]:
        return _alter(connection, "", (_ASSIGNMENT_OF_BROKERS, *change), kind=_BROKER)

    before = first_synonym()
    assert alter_brokers(_SET, "-1")[0] == ErrorCode.INVALID_REQUEST
    assert alter_brokers(_SET, "2345") == (0, None)
    try:
        changed = (_ASSIGNMENT_OF_BROKERS, "2345", _OF_ALL_BROKERS)
        _wait(lambda: first_synonym() == changed, "the brokers' interval")
    finally:
        assert alter_brokers(_DELETE, None) == (0, None)
    _wait(lambda: first_synonym() == before, "what it was")


def test_alter_configs_replaces_all(connection: RawConnection) -> None:
    group = unique_name("group")
    assert _alter(connection, group, (_SESSION, _SET, "50000")) == (0, None)

    def replace(configs: dict[str, str]) -> None:
        wanted = [AlterConfigsRequestAlterableConfig(*config) for config in configs.items()]
        resource = AlterConfigsRequestAlterConfigsResource(_GROUP, group, wanted)
        assert only(connection.ask(AlterConfigsRequest([resource]), 2).responses).error_code == 0

    replace({_HEARTBEAT: "7000"})
    expected = {**_DEFAULTS, _HEARTBEAT: ("7000", _OF_GROUP)}
    _wait(lambda: _described(connection, group) == expected, "the new configs")
    replace({})
    _wait(lambda: _described(connection, group) == _DEFAULTS, "the defaults")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("no.such", _SET, "1"), "Unknown group config name: no.such"),
        ((_SESSION, _SET, "soon"), "Not a number of type INT"),
        ((_SESSION, _SET, "0"), "Value must be at least 1"),
        ((_SESSION, _SET, "44999"), f"{_SESSION} must be greater than or equal to group.consumer."),
        ((_SESSION, _SET, "60001"), f"{_SESSION} must be less than or equal to group.consumer.max"),
        ((_HEARTBEAT, _SET, "4999"), "equal to group.consumer.min.heartbeat.interval.ms"),
        ((_HEARTBEAT, _SET, "15001"), "equal to group.consumer.max.heartbeat.interval.ms"),
        ((_ASSIGNMENT, _SET, "-1"), "Value must be at least 0"),
        ((_ASSIGNMENT, _SET, "15001"), "equal to group.consumer.max.assignment.interval.ms"),
        ((_SESSION, _APPEND, "1"), f"Can't APPEND to key {_SESSION} because its type is not LIST."),
        ((_SESSION, _SUBTRACT, "1"), "because its type is not LIST."),
    ],
)
def test_refused_configs(connection: RawConnection, change: tuple[str, int, str], why: str) -> None:
    group = unique_name("group")
    refused, message = _alter(connection, group, change)
    assert refused == ErrorCode.INVALID_CONFIG
    assert why in (message or "")
    assert _described(connection, group) == _DEFAULTS


def test_a_group_needs_an_id(connection: RawConnection) -> None:
    refused = _alter(connection, "", (_SESSION, _SET, "50000"))
    assert refused == (ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    result = _result(connection, "")
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Group name must not be empty"


def test_configs_that_are_not_set_can_be_deleted(connection: RawConnection) -> None:
    group = unique_name("group")
    assert _alter(connection, group, (_SESSION, _DELETE, None), ("no.such", _DELETE, None)) == (
        ErrorCode.NONE,
        None,
    )
