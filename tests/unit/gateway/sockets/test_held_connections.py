"""Connections above the rate of their address: real ones, and how many may wait."""

import time

from highwater.gateway.sockets import held_connections
from highwater.gateway.sockets.held_connections import HeldConnections
from highwater.model.steps import finish
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import FETCH, METADATA, PRODUCE, request
from tests.unit.gateway.quota.quota_world import key
from tests.unit.gateway.sockets.listener_world import closed


async def test_they_wait_unanswered_and_are_closed(world):
    finish(world.quotas.following({key(ip="127.0.0.1"): {"connection_creation_rate": 0.2}}, []))
    await world.listen()
    async with world.client() as (reader, writer), world.client() as other, world.client() as third:
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        other[1].write(request(PRODUCE, 2))
        assert await other[0].readexactly(2) == b"2;", "two in 10 s"
        begun = time.monotonic()
        third[1].write(request(METADATA, 3) + request(PRODUCE, 4) + request(FETCH, 5))
        assert await closed(third[0]), "and nothing was answered"
        assert 0.5 < time.monotonic() - begun < 4
    await until(lambda: not world.listener.connections)
    assert world.listener.held.refused == 1
    assert (world.listener.held._waiting, world.budget.used) == (0, 0)


async def test_clients_get_their_quotas_as_they_connect(world):
    finish(world.quotas.following({key(client=None): {"producer_byte_rate": 5.0}}, []))
    await world.listen()
    async with world.client():
        await until(lambda: world.listener.connections)
        (connection,) = world.listener.connections
        assert connection.quota.limits.produce.rate == 5.0


class Held:
    def __init__(self):
        self.reasons, self.pauses = [], 0

    def pause(self, _reason):
        self.pauses += 1

    def close(self, reason):
        self.reasons.append(reason)


def test_only_so_many_wait(monkeypatch):
    monkeypatch.setattr(held_connections, "HELD_MAX", 2)
    timers = []
    held = HeldConnections(lambda s, call: timers.append((s, call)))
    connections = [Held() for _ in range(3)]
    for connection in connections:
        held.hold(connection, 250)
    assert [len(each.reasons) for each in connections] == [0, 0, 1]
    assert [s for s, _ in timers] == [0, 0.25] * 2
    for _, call in timers:
        call()
    assert [(each.pauses, len(each.reasons)) for each in connections] == [(1, 1), (1, 1), (0, 1)]
    assert held.refused == 3
    held.hold(Held(), 250)
    assert len(timers) == 6, "there is room again"
