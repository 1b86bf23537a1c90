"""Who could lead after a leader that goes, and whether they have all that it has.

As the leader knows it. The controller elects from the committed ISR, among nodes that are neither
fenced nor draining (`highwater.controller.core.election`).
"""

from collections.abc import Iterator

from highwater.partition.core.replica import Replica


def successors(leader: Replica) -> Iterator[int]:
    """The nodes that would be elected if the leader went now."""
    for node in leader.isr.committed:
        if node != leader.node and node not in leader.ineligible:
            yield node


def has_successor(leader: Replica) -> bool:
    """True if the partition would be led by another node at once."""
    return next(successors(leader), None) is not None


def successors_have_all(leader: Replica, log_end_offset: int) -> bool:
    """True if no record before this offset is lost, whichever of them is elected."""
    followers = leader.followers
    return all(
        node in followers and followers[node].log_end_offset >= log_end_offset
        for node in successors(leader)
    )


def heard_since(leader: Replica, since_ms: int) -> Iterator[int]:
    """The nodes that have fetched from this leader since then."""
    for node, follower in leader.followers.items():
        if follower.fetched_ms >= since_ms:
            yield node
