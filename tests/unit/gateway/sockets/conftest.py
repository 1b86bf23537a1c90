"""What tests of listeners share."""

import pytest

from highwater.gateway.sockets import listener
from tests.unit.gateway.sockets.listener_world import World


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(listener, "SWEEP_S", 0.05)
    made = World()
    yield made
    for each in made.listeners:
        await each.close(drain_s=0)
    for threads in made.threads:
        threads.stop()
    assert made.budget.used == sum(reply.request_bytes for reply in made.handler.kept)
