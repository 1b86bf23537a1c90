"""Quotas of connections follow their client and the image."""

from types import SimpleNamespace

import pytest

from highwater.model.authorization import USER, Principal
from tests.unit.gateway.core.session_world import World
from tests.unit.gateway.quota.quota_world import Clients, key

ALICE = {key(user="alice"): {"producer_byte_rate": 1000.0}}
APP = {key(client="app"): {"consumer_byte_rate": 50.0}}


@pytest.fixture
def clients():
    return Clients(World().shared)


def produce_rate(session):
    return None if session.quota is None else session.quota.limits.produce.rate


def test_only_those_are_limited_whom_a_quota_is_for(clients):
    clients.set(ALICE)
    alice, bob = clients.connect(user="alice"), clients.connect(user="bob")
    assert produce_rate(alice) == 1000
    assert alice.handler is clients.limited
    assert bob.quota is None
    assert bob.handler is clients.usual


def test_open_connections_get_new_quotas_and_lose_them(clients):
    alice, bob = clients.connect(user="alice"), clients.connect(user="bob")
    assert alice.handler is clients.usual
    clients.set(ALICE)
    assert (produce_rate(alice), bob.quota) == (1000, None)
    assert alice.wire.unmuted == 0, "nothing has muted it so far"
    clients.set({key(user="alice"): {"producer_byte_rate": 2000.0}})
    assert produce_rate(alice) == 2000
    assert alice.wire.unmuted == 1
    clients.set({})
    assert alice.quota is None
    assert alice.handler is clients.usual
    assert (alice.wire.unmuted, bob.wire.unmuted) == (2, 0)


def test_what_was_measured_stays_when_quotas_change(clients):
    clients.set(ALICE)
    alice = clients.connect(user="alice")
    assert alice.quota.produced(10_500, 0) == 500
    clients.set({key(user="alice"): {"producer_byte_rate": 500.0}})
    assert alice.quota.produced(0, 0) == 11_000


def test_quotas_that_do_not_change_leave_the_connection_alone(clients):
    clients.set(ALICE)
    alice = clients.connect(user="alice")
    quota = alice.quota
    alice.fetch_shape = "kept"
    clients.set({**ALICE, **APP})
    assert (alice.quota, alice.fetch_shape, alice.wire.unmuted) == (quota, "kept", 0)


def test_the_client_id_may_change(clients):
    clients.set(APP)
    session = clients.connect()
    assert session.quota is None
    clients.quotas.identify(session, "app")
    assert session.quota.limits.consume.rate == 50
    session.fetch_shape = "kept"
    clients.quotas.identify(session, "app")
    assert session.fetch_shape == "kept"
    clients.quotas.identify(session, "other")
    assert session.quota is None


def test_requests_are_recognised_anew_as_fetches_return_less(clients):
    session = clients.connect(client_id="app")
    session.fetch_shape = "a shape"
    session.client.fetch_session = SimpleNamespace(empty="a shape")
    clients.set(APP)
    assert session.fetch_shape is session.client.fetch_session.empty is None


def test_a_connection_before_its_login_keeps_its_handler(clients):
    clients.set(ALICE)
    session = clients.connect()
    session.handler = gate = object()
    session.client.requester = clients.connect(user="alice").client.requester
    clients.quotas.settle(session)
    assert session.handler is gate
    assert produce_rate(session) == 1000
    session.handler = clients.usual  # The login is complete.
    clients.quotas.settle(session)
    assert session.handler is clients.limited


def test_closed_connections_are_left_alone(clients):
    session = clients.connect(user="alice")
    session.closed = True
    clients.set(ALICE)
    assert session.quota is None


def test_quotas_of_addresses_are_followed(clients):
    clients.set({key(ip=None): {"connection_creation_rate": 0.05}})
    hold = clients.quotas.connections.hold_ms
    assert hold("default", "10.0.0.1") == 1000
    clients.set({})
    assert hold("default", "10.0.0.1") == 0


def test_many_connections_are_looked_at_in_steps(clients):
    for _ in range(450):
        clients.connect(user="alice")
    steps = sum(1 for _ in clients.quotas.following(ALICE, clients.sessions))
    assert steps >= 3
    assert all(produce_rate(session) == 1000 for session in clients.sessions)


def test_who_has_yet_to_log_in_uses_up_no_quota(clients):
    """It may call itself like a client that has one."""
    clients.set({**APP, key(user="<default>"): {"request_percentage": 1.0}})
    stranger = clients.connect()
    stranger.client.login = object()
    clients.quotas.identify(stranger, "app")
    assert stranger.quota is None
    stranger.client.requester = stranger.client.requester._replace(
        principal=Principal(USER, "alice")
    )
    clients.quotas.settle(stranger)
    assert stranger.quota is not None
    unasked = clients.connect(client_id="app")
    assert unasked.quota is not None, "where nobody logs in, all are anonymous"
