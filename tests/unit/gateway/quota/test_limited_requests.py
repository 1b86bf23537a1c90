"""Requests of connections with quotas: held fetches, and time that counts."""

import pytest

from tests.unit.gateway.core.session_world import World
from tests.unit.gateway.quota.quota_world import Clients, key


@pytest.fixture
def clients():
    return Clients(World().shared)


def test_a_fetch_of_a_client_over_its_quota_is_held(clients):
    clients.set({key(user="alice"): {"consumer_byte_rate": 1000.0}})
    session = clients.connect(user="alice")
    session.handler.fetch(session, b"1")
    session.quota.consumed(12_000, 0)
    session.handler.fetch(session, b"2")
    session.handler.produce(session, b"3")
    session.handler.other(session, b"4")
    session.handler.reply_failed(session, "bug")
    assert clients.usual.got == [
        ("fetch", b"1"),
        ("held", b"2", 2000),
        ("produce", b"3"),
        ("other", b"4"),
        ("failed", "bug"),
    ]


def test_the_time_of_produce_and_fetch_counts_where_it_is_limited(clients):
    clients.set({key(user="alice"): {"request_percentage": 0.01}})
    session = clients.connect(user="alice")
    session.handler.produce(session, b"1")  # 1 ms is 0.1 %s, all that 10 s give.
    assert session.quota.fetch_hold_ms() == 0
    session.handler.fetch(session, b"2")
    assert session.quota.fetch_hold_ms() == 1000
    session.handler.fetch(session, b"3")
    assert clients.usual.got[-1] == ("held", b"3", 1000)


def test_no_clock_is_read_where_time_is_not_limited(clients):
    clients.set({key(user="alice"): {"producer_byte_rate": 1.0}})
    session = clients.connect(user="alice")
    session.handler.produce(session, b"1")
    session.handler.fetch(session, b"2")
    assert clients.clock_ns == 0


def test_a_request_that_began_before_the_quota_went_is_handled(clients):
    clients.set({key(user="alice"): {"producer_byte_rate": 1.0}})
    session = clients.connect(user="alice")
    session.quota = None
    clients.limited.fetch(session, b"1")
    clients.limited.produce(session, b"2")
    assert clients.usual.got == [("fetch", b"1"), ("produce", b"2")]
