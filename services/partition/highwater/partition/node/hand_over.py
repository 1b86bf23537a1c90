"""What a node that stops does before others lead: it appends nothing more, and followers catch up.

Then no record is lost that only this node has acknowledged (acks=1), appends that wait for
followers are answered, and none is in doubt. What comes meanwhile is refused as not appended;
gateways hold it for the next leader. Partitions that no other replica could lead go on.

The controller moves all of a node's leaderships at once. So a follower that hangs must not keep
partitions waiting that it has no part in: its own, and others where a follower lags, stop first, and
the rest goes on until these are ready or given up.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from highwater.partition.core.succession import heard_since
from highwater.partition.data_plane.replica import PartitionReplica

LOOK_S: Final = 0.005
"""Between two looks at the followers, which are a few milliseconds behind as a rule."""

PROBE_S: Final = 0.2
"""For followers to fetch what the log holds when the node begins to stop."""


async def hand_over(
    replicas: Iterable[PartitionReplica], timeout_s: float
) -> list[PartitionReplica]:
    """Takes no more appends where another replica could lead, and waits for those replicas.

    Gives the ones whose successors still lack something after `timeout_s`, which begins for the slow
    ones at once, and for the rest when they stop.
    """
    loop = asyncio.get_running_loop()
    everyone = list(replicas)
    deadline_s = loop.time() + timeout_s
    slow = await _slow(everyone, min(PROBE_S, timeout_s / 2))
    await wait_for([replica for replica in slow if replica.resign()], _is_done, deadline_s)
    # Whoever came to lead meanwhile is among them.
    rest = [replica for replica in everyone if not replica.resigned and replica.resign()]
    await wait_for(rest, _is_done, loop.time() + timeout_s)
    return [replica for replica in everyone if replica.resigned and not _is_done(replica)]


async def _slow(everyone: list[PartitionReplica], probe_s: float) -> list[PartitionReplica]:
    """Those whose successors do not fetch what the log holds now.

    A node that lags and fetches nothing at all hangs: other partitions of its, where it lacks nothing
    yet, are as slow with the next record.
    """
    if not everyone:
        return []
    since_ms = everyone[0].clock.monotonic_ms()
    ends = {replica: replica.log.log_end_offset for replica in everyone}
    lagging = await wait_for(
        everyone,
        lambda replica: replica.next_leader_has(ends[replica]),
        asyncio.get_running_loop().time() + probe_s,
    )
    hanging = {node for replica in lagging for node in replica.successors()}
    for replica in everyone if hanging else ():
        hanging.difference_update(heard_since(replica.core.followers, since_ms))
    late = set(lagging)
    return [
        replica
        for replica in everyone
        if replica in late or not hanging.isdisjoint(replica.successors())
    ]


async def wait_for(
    replicas: Iterable[PartitionReplica],
    is_ready: Callable[[PartitionReplica], bool],
    deadline_s: float,
) -> list[PartitionReplica]:
    """Until all are ready, or until the deadline; those that are not."""
    loop = asyncio.get_running_loop()
    late = list(replicas)
    while late := [replica for replica in late if not is_ready(replica)]:
        left_s = deadline_s - loop.time()
        if left_s <= 0:
            break
        await asyncio.sleep(min(LOOK_S, left_s))
    return late


def _is_done(replica: PartitionReplica) -> bool:
    if not replica.handed_over:
        return False
    if not replica.waiters.commits:
        replica.answers.go_on()
    return True
