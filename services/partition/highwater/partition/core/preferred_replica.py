"""Which follower a client in another rack than the leader's is to read from (KIP-392).

Sources: Kafka's `ReplicaManager.findPreferredReadReplica` and `RackAwareReplicaSelector`.
"""

from collections.abc import Container

from highwater.model.ids import NO_NODE, NodeId
from highwater.partition.core.replica import Replica


def preferred_replica(leader: Replica, near: Container[int], fetch_offset: int) -> NodeId:
    """The follower near to the client that is furthest of those in sync; NO_NODE if the client is
    to stay with the leader, because that is as near, or no such follower has the offset.

    Followers outside the ISR are left out: they may never catch up, and the client would read
    further and further behind. Not all that a follower has is known to it as committed yet.
    """
    if leader.node in near:
        return NO_NODE
    suitable = [
        follower
        for follower in leader.progress
        if follower.node in near
        and follower.node in leader.isr.committed
        and follower.log_end_offset >= fetch_offset >= follower.kept_log_start >= 0
    ]
    if not suitable:
        return NO_NODE
    best = max(suitable, key=lambda one: (one.log_end_offset, one.caught_up_ms, -one.node))
    return NodeId(best.node)
