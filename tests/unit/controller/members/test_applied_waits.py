import asyncio

import pytest

from highwater.controller.core.liveness import SessionTable
from highwater.controller.members.applied_waits import AppliedWaits
from highwater.model.ids import GatewayId, NodeId
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_of, node_state

GATEWAY = GatewayId("g")


def table(member, **session):
    made = SessionTable(session_timeout_ms=1_000, stream_grace_ms=100)
    made.open(member, epoch=0, now_ms=0, **session)
    return made


class World:
    """Node 1 lives, node 2 is fenced; a gateway that no image names any more lives, too."""

    def __init__(self, **session):
        self.nodes = table(NodeId(1), **session)
        self.nodes.open(NodeId(2), epoch=0, now_ms=0)
        image = image_of(nodes=[node_state(1), node_state(2, fenced=True)])
        self.waits = AppliedWaits(lambda: image, self.nodes, table(GATEWAY), silent_logger())

    def applies(self, revision):
        self.nodes.heard(NodeId(1), now_ms=1, applied_revision=revision)
        self.waits.check()


async def test_it_is_over_when_the_last_live_member_has_applied_the_revision():
    world = World()
    waiting = asyncio.ensure_future(world.waits.wait(7, 1_000))
    for revision in (5, 6):
        await asyncio.sleep(0)
        world.applies(revision)
    await asyncio.sleep(0)
    assert not waiting.done()
    world.applies(7)
    assert await waiting
    assert await world.waits.wait(7, 0), "nobody is behind"


async def test_it_has_a_limit():
    assert not await World().waits.wait(1, 1)


@pytest.mark.parametrize("timeout_ms", [0, 1_000])
async def test_members_that_may_not_exist_are_not_waited_for(timeout_ms):
    assert await World(confirmed=False).waits.wait(1, timeout_ms)
