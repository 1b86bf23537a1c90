"""AlterClientQuotas and DescribeClientQuotas on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponentData,
)
from tests.conformance.topics import unique_name
from tests.support.process import wait_until
from tests.support.wire import RawConnection

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2

Entity = tuple[tuple[str, str | None], ...]


def _alter(
    connection: RawConnection,
    *changes: tuple[Entity, dict[str, float | None]],
    validate_only: bool = False,
    version: int = 1,
) -> dict[Entity, tuple[int, str | None]]:
    request = AlterClientQuotasRequest(
        [
            AlterClientQuotasRequestEntryData(
                [AlterClientQuotasRequestEntityData(*part) for part in entity],
                [
                    AlterClientQuotasRequestOpData(key, value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes
        ],
        validate_only,
    )
    answer = connection.ask(request, version)
    return {_entity(one): (one.error_code, one.error_message) for one in answer.entries}


def _entity(entry: Any) -> Entity:
    return tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))


def _ask(
    connection: RawConnection,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    asked = [DescribeClientQuotasRequestComponentData(*one) for one in components]
    return connection.ask(DescribeClientQuotasRequest(asked, strict), version)


def _described(
    connection: RawConnection, *components: tuple[str, int, str | None], **options: Any
) -> dict[Entity, dict[str, float]]:
    answer = _ask(connection, *components, **options)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return {_entity(one): {v.key: v.value for v in one.values} for one in answer.entries}


@pytest.mark.parametrize("version", [0, 1])
def test_set_describe_and_remove(connection: RawConnection, version: int) -> None:
    name = unique_name("user")
    user: Entity = (("user", name),)
    both: Entity = (("client-id", name), ("user", name))
    new = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    changes = (user, new), (both, {"controller_mutation_rate": 0.25})
    assert _alter(connection, *changes, validate_only=True, version=version) == {
        user: (0, None),
        both: (0, None),
    }
    exact = ("user", _EXACT, name)
    assert _described(connection, exact, version=version) == {}
    assert set(_alter(connection, *changes, version=version).values()) == {(0, None)}
    expected = {user: new, both: {"controller_mutation_rate": 0.25}}
    wait_until(
        lambda: _described(connection, exact, version=version) == expected,
        timeout_s=10,
        what="the quotas",
    )
    assert _described(connection, exact, strict=True) == {user: new}
    assert _described(connection, exact, ("client-id", _SPECIFIED, None)).keys() == {both}
    assert _described(connection, exact, ("client-id", _DEFAULT, None)) == {}
    assert _described(connection).keys() >= {user, both}
    assert _described(connection, strict=True) == {}
    gone: dict[str, float | None] = dict.fromkeys(new)
    _alter(connection, (user, gone), (both, {"controller_mutation_rate": None}))
    wait_until(lambda: not _described(connection, exact), timeout_s=10, what="their end")


def test_defaults_and_addresses(connection: RawConnection) -> None:
    default: Entity = (("ip", None),)
    address: Entity = (("ip", "192.0.2.77"),)
    rate = "connection_creation_rate"
    answer = _alter(connection, (default, {rate: 5.0}), (address, {rate: 7.0}))
    assert set(answer.values()) == {(0, None)}
    try:
        expected = {default: {rate: 5.0}, address: {rate: 7.0}}
        wait_until(
            lambda: _described(connection, ("ip", _SPECIFIED, None)) == expected,
            timeout_s=10,
            what="the quotas",
        )
        assert _described(connection, ("ip", _DEFAULT, None)) == {default: {rate: 5.0}}
    finally:
        _alter(connection, (default, {rate: None}), (address, {rate: None}))


@pytest.mark.parametrize(
    ("entity", "key", "value", "why"),
    [
        ((), "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ((("topic", "t"),), "producer_byte_rate", 1.0, "Unhandled client quota entity type: topic"),
        ((("user", ""),), "producer_byte_rate", 1.0, "Empty user not supported"),
        ((("user", "a"),), "no_such_quota", 1.0, "Invalid configuration key no_such_quota"),
        ((("user", "a"),), "producer_byte_rate", -1.0, "must be greater than 0"),
        ((("user", "a"),), "producer_byte_rate", 1.5, "cannot be a fractional value"),
        ((("user", "a"),), "producer_byte_rate", 1e19, "is too large for a LONG"),
        ((("ip", "::1"),), "connection_creation_rate", 3e9, "is too large for an INT"),
        ((("ip", "::1"),), "producer_byte_rate", 1.0, "Invalid configuration key"),
        ((("ip", "not an address"),), "connection_creation_rate", 1.0, "is not a valid IP"),
        ((("ip", "::1"), ("user", "a")), "producer_byte_rate", 1.0, "IP entity should"),
    ],
)
def test_refused_changes(
    connection: RawConnection, entity: Entity, key: str, value: float, why: str
) -> None:
    ((code, message),) = _alter(connection, (entity, {key: value})).values()
    assert code == ErrorCode.INVALID_REQUEST
    assert why in (message or "")


def test_an_entity_that_is_named_twice(connection: RawConnection) -> None:
    entity: Entity = (("user", unique_name("twice")),)
    name = entity[0][1]
    changes = [(entity, {"producer_byte_rate": value}) for value in (5.0, 6.0)]
    code, message = _alter(connection, *changes)[entity]
    assert code == ErrorCode.INVALID_REQUEST
    assert message == f"Ignoring duplicate entity ClientQuotaEntity(entries={{user={name}}})"
    wait_until(
        lambda: (
            _described(connection, ("user", _EXACT, name)) == {entity: {"producer_byte_rate": 5.0}}
        ),
        timeout_s=10,
        what="the first of the two",
    )
    _alter(connection, (entity, {"producer_byte_rate": None}))


@pytest.mark.parametrize(
    ("components", "code", "why"),
    [
        ([("", _EXACT, "a")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([("user", _EXACT, None)], ErrorCode.INVALID_REQUEST, "set match string to null"),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 9"),
        ([("topic", _EXACT, "t")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type topic"),
        (
            [("ip", _SPECIFIED, None), ("user", _SPECIFIED, None)],
            ErrorCode.INVALID_REQUEST,
            "IP filter component should not be used with user or clientId filter component.",
        ),
    ],
)
def test_refused_filters(
    connection: RawConnection,
    components: list[tuple[str, int, str | None]],
    code: ErrorCode,
    why: str,
) -> None:
    answer = _ask(connection, *components)
    assert answer.error_code == code
    assert why in answer.error_message
    assert answer.entries is None
