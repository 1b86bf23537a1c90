"""Nodes that have not sent a heartbeat to a new controller yet."""

import asyncio

import pytest

from highwater.controller.core.liveness import SessionTable
from highwater.controller.members import absent_nodes
from highwater.controller.members.absent_nodes import close_ended
from highwater.model.ids import NodeId
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_with


class TurnedClock:
    """A clock that the test sets."""

    now_ms = 100

    def monotonic_ms(self) -> int:
        return self.now_ms

    def time_ms(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absent_nodes, "ROUND_S", 0.01)


async def test_only_refused_and_silent_nodes_are_given_up() -> None:
    image = image_with(4)
    sessions: SessionTable[NodeId] = SessionTable(session_timeout_ms=6_000, stream_grace_ms=500)
    for number, state in image.nodes.items():
        sessions.open(number, epoch=state.node_epoch, now_ms=0, confirmed=False)
    sessions.heard(NodeId(1), now_ms=10, applied_revision=1)
    asked: list[str] = []
    found: list[int] = []

    async def is_refused(address: str) -> bool:
        asked.append(address)
        if address.startswith("host2") and len(asked) > 5:
            sessions.heard(NodeId(2), now_ms=50, applied_revision=1)  # Slow, and alive.
        if address.startswith("host4"):
            sessions.heard(NodeId(4), now_ms=50, applied_revision=1)  # During the check.
        return address.startswith(("host3", "host4"))

    clock = TurnedClock()
    tasks = TaskOwner(lambda _name, _error: None)
    tasks.start(
        close_ended(sessions, lambda: image.nodes, clock, is_refused, lambda: found.append(1)),
        name="close-ended",
    )
    async with asyncio.timeout(5):
        while sessions.unseen(100):
            await asyncio.sleep(0.01)
        assert "host1:9300" not in asked
        assert asked.count("host2:9300") > 1
        assert found == [1]
        assert sessions.expired(599) == []
        assert sessions.expired(600) == [3], "after the grace of a closed stream"
        # Node 4 was heard once, opens no stream, and is not heard again.
        clock.now_ms = 2_050
        while found == [1]:
            await asyncio.sleep(0.01)
    assert sessions.expired(2_549) == [3]
    assert sessions.expired(2_550) == [3, 4]
    assert await tasks.close(timeout_s=1)
