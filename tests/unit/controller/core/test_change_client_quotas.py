"""AlterClientQuotas: what is refused, and what is stored."""

import math
from dataclasses import replace

import pytest

from highwater.controller.core import change_client_quotas
from highwater.controller.core.change_client_quotas import (
    NAME_LENGTH_MAX,
    QuotaAlteration,
    altering_client_quotas,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.client_quotas import CLIENT_ID, IP, USER, ClientQuotaKey
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.steps import finish
from tests.support.controller_images import image_of

ALICE = ((USER, "alice"),)
KEY = ClientQuotaKey(DEFAULT_INSTANCE, ALICE)
OTHER = ClientQuotaKey(InstanceId("other"), ALICE)
STORED = {"producer_byte_rate": 10.0, "request_percentage": 0.5}
IMAGE = replace(image_of(), client_quotas={KEY: STORED, OTHER: {"consumer_byte_rate": 1.0}})

Parts = tuple[tuple[str, str | None], ...]


def alter(
    *changes: tuple[Parts, list[tuple[str, float | None]]],
) -> tuple[ClusterDelta | None, list[tuple[int, str]]]:
    wanted = [QuotaAlteration(entity=entity, operations=ops) for entity, ops in changes]
    decision = finish(altering_client_quotas(IMAGE, DEFAULT_INSTANCE, wanted))
    outcomes = [(r.code, r.message) if r else (0, "") for r in decision.result]
    return decision.delta, outcomes


def refusal(entity: Parts, key: str, value: float | None) -> str:
    """Why a change is refused with INVALID_REQUEST."""
    delta, ((code, message),) = alter((entity, [(key, value)]))
    assert (delta, code) == (None, ErrorCode.INVALID_REQUEST)
    return message


def test_values_are_set_changed_and_removed() -> None:
    bob = ((USER, "bob"), (CLIENT_ID, None))
    delta, outcomes = alter(
        (ALICE, [("producer_byte_rate", 20.0), ("request_percentage", None)]),
        (bob, [("controller_mutation_rate", 1.5)]),
        (((IP, None),), [("connection_creation_rate", 7.0)]),
    )
    assert outcomes == [(0, "")] * 3
    assert delta is not None
    assert delta.client_quotas == {
        KEY: {"producer_byte_rate": 20.0},
        ClientQuotaKey(DEFAULT_INSTANCE, ((CLIENT_ID, None), (USER, "bob"))): {
            "controller_mutation_rate": 1.5
        },
        ClientQuotaKey(DEFAULT_INSTANCE, ((IP, None),)): {"connection_creation_rate": 7.0},
    }


def test_the_last_value_removes_the_entity_in_this_instance_only() -> None:
    delta, _ = alter((ALICE, [(name, None) for name in STORED]))
    assert delta is not None
    assert delta.client_quotas == {KEY: {}}
    after = IMAGE.apply(replace(delta, revision=IMAGE.revision + 1))
    assert after.client_quotas == {OTHER: {"consumer_byte_rate": 1.0}}


def test_a_change_without_effect_commits_nothing() -> None:
    nobody = ((USER, "nobody"),)
    delta, outcomes = alter(
        (ALICE, [("producer_byte_rate", 10.0), ("consumer_byte_rate", None)]),
        (nobody, [("no_such_quota", None)]),
    )
    assert (delta, outcomes) == (None, [(0, "")] * 2), "removals are not looked at, as in Kafka"


@pytest.mark.parametrize(
    ("entity", "why"),
    [
        ((), "Invalid empty client quota entity"),
        ((("group", "g"),), "Unhandled client quota entity type: group"),
        (((USER, ""),), "Empty user not supported"),
        (((CLIENT_ID, "x" * (NAME_LENGTH_MAX + 1)),), "at most 1024 characters"),
        (((USER, "a"), (IP, "::1")), "IP entity shouldnot be combined with User or ClientId"),
        (((IP, "not-an-address"),), "not-an-address is not a valid IP address"),
        (((IP, "127.0.0.1:80"),), "is not a valid IP address"),
    ],
)
def test_entities_that_cannot_have_quotas(entity: Parts, why: str) -> None:
    assert why in refusal(entity, "producer_byte_rate", 1.0)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "2001:db8::7", None])
def test_addresses(address: str | None) -> None:
    _, outcomes = alter((((IP, address),), [("connection_creation_rate", 2.0**31 - 1)]))
    assert outcomes == [(0, "")]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ("SCRAM-SHA-256", 1.0, "Invalid configuration key SCRAM-SHA-256"),
        ("producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("request_percentage", -1.0, "Quota request_percentage must be greater than 0"),
        ("producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ("consumer_byte_rate", 1e19, "is too large for a LONG."),
        ("request_percentage", math.inf, "must be a finite number"),
        ("consumer_byte_rate", math.nan, "must be a finite number"),
    ],
)
def test_values_of_users(key: str, value: float, why: str) -> None:
    assert why in refusal(ALICE, key, value)


def test_values_of_addresses() -> None:
    address = ((IP, "127.0.0.1"),)
    assert "Invalid configuration key" in refusal(address, "producer_byte_rate", 1.0)
    assert "too large for an INT." in refusal(address, "connection_creation_rate", 2.0**31)


def test_one_bad_value_spoils_the_entity_but_not_others() -> None:
    bob = ((USER, "bob"),)
    delta, outcomes = alter(
        (ALICE, [("consumer_byte_rate", 5.0), ("request_percentage", 0.0)]),
        (bob, [("consumer_byte_rate", 5.0)]),
    )
    assert [code for code, _ in outcomes] == [ErrorCode.INVALID_REQUEST, 0]
    assert delta is not None
    assert list(delta.client_quotas) == [ClientQuotaKey(DEFAULT_INSTANCE, bob)]


def test_an_entity_that_is_named_twice_is_answered_with_the_error_and_changed_once() -> None:
    delta, outcomes = alter(
        (ALICE, [("consumer_byte_rate", 5.0)]), (ALICE, [("consumer_byte_rate", 6.0)])
    )
    why = "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"
    assert outcomes == [(ErrorCode.INVALID_REQUEST, why)] * 2
    assert delta is not None
    assert delta.client_quotas == {KEY: {**STORED, "consumer_byte_rate": 5.0}}


def test_a_value_that_is_named_twice() -> None:
    delta, ((code, why),) = alter(
        (((USER, None),), [("consumer_byte_rate", 5.0), ("consumer_byte_rate", None)])
    )
    assert (delta, code) == (None, ErrorCode.INVALID_REQUEST)
    assert why == "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"


def test_the_number_of_entities_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_client_quotas, "ENTITIES_MAX", 2)
    new = [(((USER, name),), [("consumer_byte_rate", 5.0)]) for name in "abc"]
    delta, outcomes = alter(*new)
    assert [code for code, _ in outcomes] == [0, *[ErrorCode.POLICY_VIOLATION] * 2]
    assert delta is not None
    assert len(delta.client_quotas) == 1
    _, outcomes = alter((ALICE, [(name, None) for name in STORED]), *new)
    assert [code for code, _ in outcomes] == [0, 0, 0, ErrorCode.POLICY_VIOLATION]
