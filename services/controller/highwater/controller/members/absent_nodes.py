"""Ends sessions of dead nodes early if no closed stream shows their death.

A new controller cannot know when nodes last sent a heartbeat, so each node gets a full session's
time to call. Live nodes call within a second. The controller connects to the addresses of nodes
that do not, and of nodes that have no stream and fell silent. If the kernel there refuses the
connection, no process runs there, and the session ends as if the node's stream had closed. A node
that is alive and slow keeps its session.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from highwater.controller.core.liveness import SessionTable
from highwater.model.cluster import NodeState
from highwater.model.ids import NodeId
from highwater.model.time import Clock

ROUND_S: Final = 1.0
AT_ONCE_MAX: Final = 16

IsRefused = Callable[[str], Awaitable[bool]]


async def close_ended(
    sessions: SessionTable[NodeId],
    nodes: Callable[[], Mapping[NodeId, NodeState]],
    clock: Clock,
    is_refused: IsRefused,
    closed: Callable[[], None],
) -> None:
    """Asks in rounds, for ever; calls `closed` for each node found dead."""
    limit = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(node: NodeState) -> None:
        async with limit:
            refused = await is_refused(node.address)
        if refused and sessions.ended_unseen(
            node.node_id, epoch=node.node_epoch, now_ms=clock.monotonic_ms()
        ):
            closed()

    while True:
        known = nodes()
        unseen = [known[n] for n in sessions.unseen(clock.monotonic_ms()) if n in known]
        async with asyncio.TaskGroup() as group:
            for node in unseen:
                group.create_task(ask(node))
        await asyncio.sleep(ROUND_S)
