"""Which quotas apply to whom: every entity that a client can belong to, in Kafka's order."""

import pytest

from highwater.gateway.quota.core.precedence import (
    address_limits_of,
    canonical_address,
    limits_of,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.steps import finish
from tests.unit.gateway.quota.quota_world import key

OTHER = InstanceId("other")
IN_ORDER = [
    (key(user="alice", client="app"), ("alice", "app")),
    (key(user="alice", client=None), ("alice", "app")),
    (key(user="alice"), ("alice", "")),
    (key(user=None, client="app"), ("alice", "app")),
    (key(user=None, client=None), ("alice", "app")),
    (key(user=None), ("alice", "")),
    (key(client="app"), ("", "app")),
    (key(client=None), ("", "app")),
]
"""Entities, the first of which counts, and the user and client id that are measured together."""
KINDS = [
    ("produce", "producer_byte_rate"),
    ("consume", "consumer_byte_rate"),
    ("request", "request_percentage"),
    ("mutation", "controller_mutation_rate"),
]


@pytest.mark.parametrize(("place", "kind"), KINDS)
@pytest.mark.parametrize("number", range(len(IN_ORDER)))
def test_the_first_entity_counts(number, place, kind):
    quotas = {entity: {kind: 10.0 + n} for n, (entity, _) in enumerate(IN_ORDER) if n >= number}
    limits = limits_of(quotas, DEFAULT_INSTANCE, "alice", "app")
    found = getattr(limits, place)
    assert found.rate == 10.0 + number
    assert found.measured == (kind, DEFAULT_INSTANCE, *IN_ORDER[number][1])
    assert [limit for limit in limits if limit is not None] == [found], "of this kind only"


def test_each_kind_of_quota_is_looked_for_by_itself():
    quotas = {
        key(user="alice", client="app"): {"request_percentage": 50.0},
        key(user="alice"): {"producer_byte_rate": 1.0, "request_percentage": 20.0},
        key(client=None): {"consumer_byte_rate": 2.0, "producer_byte_rate": 3.0},
    }
    limits = limits_of(quotas, DEFAULT_INSTANCE, "alice", "app")
    rates = [None if limit is None else limit.rate for limit in limits]
    assert rates == [1.0, 2.0, 50.0, None]


@pytest.mark.parametrize(
    "stranger",
    [
        key(user="bob"),
        key(user="bob", client=None),
        key(client="other"),
        key(user=None, client="other"),
        key(user="alice", client="other"),
        key(OTHER, user="alice"),
        key(ip=None),
    ],
    ids=str,
)
def test_quotas_of_others_do_not_apply(stranger):
    quotas = {stranger: {"producer_byte_rate": 1.0}}
    assert limits_of(quotas, DEFAULT_INSTANCE, "alice", "app") is None


def test_a_client_without_an_id_has_that_of_the_default():
    quotas = {key(client=None): {"producer_byte_rate": 1.0}}
    assert limits_of(quotas, DEFAULT_INSTANCE, "alice", "").produce.rate == 1.0


def test_addresses():
    rate = "connection_creation_rate"
    limits = finish(
        address_limits_of(
            {
                key(ip="10.0.0.1"): {rate: 5.0},
                key(ip="2001:DB8:0::1"): {rate: 7.0},
                key(ip=None): {rate: 9.0},
                key(OTHER, ip="10.0.0.2"): {rate: 1.0},
                key(user="alice"): {"producer_byte_rate": 1.0},
            }
        )
    )
    assert limits
    found = {
        host: limits.limit_of(DEFAULT_INSTANCE, host)
        for host in ("10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "10.0.0.2", "")
    }
    assert list(found.values()) == [5.0, 5.0, 7.0, 9.0, 9.0]
    assert limits.limit_of(OTHER, "10.0.0.2") == 1.0
    assert limits.limit_of(OTHER, "10.0.0.1") is None


def test_without_quotas_of_addresses_there_are_no_limits():
    assert not finish(address_limits_of({key(user="alice"): {"producer_byte_rate": 1.0}}))


@pytest.mark.parametrize(
    ("host", "name"),
    [("0:0::1", "::1"), ("::FFFF:1.2.3.4", "1.2.3.4"), ("/tmp/socket", "/tmp/socket"), ("", "")],
)
def test_an_address_has_one_spelling(host, name):
    assert canonical_address(host) == name
