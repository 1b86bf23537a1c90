"""Nodes whose end no stream shows: those that have ended are given up before their sessions run out.

A new controller cannot know when nodes were last heard, so each has a full session's time to come.
All that live do so within a second. Of those that do not, and of those that have no stream and fell
silent, the address is asked: where the kernel refuses the connection, there is no process, and the
session ends like that of a node whose stream closed. A node that is alive and slow keeps its session.
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
    """Asks in rounds, for ever; `closed` hears of each find."""
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
