"""What a node that stops does before others lead: it appends nothing more, and followers catch up.

Then no record is lost that only this node has acknowledged (acks=1), appends that wait for
followers are answered, and none is in doubt. What comes meanwhile is refused as not appended;
gateways hold it for the next leader. Partitions that no other replica could lead go on.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from highwater.partition.data_plane.replica import PartitionReplica

LOOK_S: Final = 0.005
"""Between two looks at the followers, which are a few milliseconds behind as a rule."""


async def hand_over(
    replicas: Iterable[PartitionReplica], timeout_s: float
) -> list[PartitionReplica]:
    """Takes no more appends where another replica could lead, and waits for those replicas.

    Gives the ones whose successors still lack something after `timeout_s`.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    behind = [replica for replica in replicas if replica.resign()]
    while behind := [replica for replica in behind if not _is_done(replica)]:
        left_s = deadline_s - loop.time()
        if left_s <= 0:
            break
        await asyncio.sleep(min(LOOK_S, left_s))
    return behind


def _is_done(replica: PartitionReplica) -> bool:
    if not replica.handed_over:
        return False
    if not replica.waiters.commits:
        replica.resume_appends()
    return True
