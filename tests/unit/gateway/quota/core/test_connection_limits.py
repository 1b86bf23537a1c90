from collections import Counter

from highwater.gateway.quota.core.connection_limits import (
    NO_LIMITS,
    ConnectionLimits,
    ConnectionTurns,
    connection_limits,
)
from highwater.gateway.quota.core.windowed_rate import QuotaWindows


class Present:
    """Who the test says is here."""

    def __init__(self):
        self.listeners, self.hosts = Counter(), Counter()

    def __len__(self):
        return self.listeners.total()

    def by(self, listener):
        return self.listeners[listener]

    def of(self, host):
        return self.hosts[host]


def turns(**limits):
    made = ConnectionTurns(QuotaWindows(), Present())
    made.limits = ConnectionLimits(**limits)
    return made


def test_configs_of_a_broker_and_its_listeners():
    assert connection_limits({"message.max.bytes": "5"}) == NO_LIMITS
    assert not (NO_LIMITS.waits or NO_LIMITS.refuses)
    limits = connection_limits(
        {
            "max.connections": "100",
            "listener.name.plaintext.max.connections": "50",
            "listener.name.internal.max.connection.creation.rate": "5",
            "max.connections.per.ip": "9",
            "max.connections.per.ip.overrides": "10.0.0.1:1",
        }
    )
    assert limits == ConnectionLimits(
        connections=100,
        connections_by={"default": 50},
        rate_by={"internal": 5},
        of_address=9,
        of_addresses={"10.0.0.1": 1},
    )
    assert limits.waits
    assert limits.refuses


def test_a_rate_holds_for_those_who_come_in_one_after_the_other():
    made = turns(rate=10)
    assert [made.wait_ms("a", 5_000) for _ in range(100)] == [0] * 100, "ten seconds' worth"
    assert [made.wait_ms("b", 5_000) for _ in range(3)] == [100, 200, 300], "of all listeners"
    now_ms, came = 5_600, 103
    while now_ms < 65_000:
        now_ms += made.wait_ms("b", now_ms)
        came += 1
    assert 500 < came <= 700


def test_the_longer_time_of_gateway_and_listener_counts_at_most_a_window():
    made = turns(rate=1000, rate_by={"a": 1})
    assert [made.wait_ms("a", 0) for _ in range(10)] == [0] * 10
    assert made.wait_ms("a", 0) == 1000
    assert made.wait_ms("a", 0) == 1000, "Kafka's bound: the next one waits for this one"
    assert made.wait_ms("b", 0) == 0


def test_room_is_that_of_the_gateway_and_of_the_listener():
    made = turns(connections=3, connections_by={"a": 1})
    present = made._present
    assert made.has_room("a")
    present.listeners["a"] = 1
    assert (made.has_room("a"), made.has_room("b")) == (False, True)
    present.listeners["b"] = 2
    assert not made.has_room("b")


def test_an_address_has_its_own_number_or_that_of_all():
    made = turns(of_address=1, of_addresses={"10.0.0.2": 2, "10.0.0.3": 0})
    made._present.hosts.update({"10.0.0.1": 1, "10.0.0.2": 1})
    assert [made.takes_of(f"10.0.0.{n}") for n in range(1, 5)] == [False, True, False, True]
