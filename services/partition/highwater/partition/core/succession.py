"""Which nodes could lead next, and whether their logs have everything that the leader's log has.

This is what the leader knows. The controller elects from the committed ISR, among nodes that are neither
fenced nor draining (`highwater.controller.core.election`).
"""

from collections.abc import Collection, Iterator, Mapping

from highwater.partition.core.followers import FollowerProgress
from highwater.partition.core.isr import IsrState


def successors(isr: IsrState, leader: int, ineligible: Collection[int]) -> Iterator[int]:
    """The nodes that the controller could elect if `leader` stopped now."""
    for node in isr.committed:
        if node != leader and node not in ineligible:
            yield node


def has_successor(isr: IsrState, leader: int, ineligible: Collection[int]) -> bool:
    """True if the controller could elect another leader at once."""
    return next(successors(isr, leader, ineligible), None) is not None


def have_all(
    nodes: Iterator[int], followers: Mapping[int, FollowerProgress], log_end_offset: int
) -> bool:
    """True if no record before this offset is lost, whichever of the nodes is elected."""
    return all(
        node in followers and followers[node].log_end_offset >= log_end_offset for node in nodes
    )


def heard_since(followers: Mapping[int, FollowerProgress], since_ms: int) -> Iterator[int]:
    """The nodes that have fetched from their leader since then."""
    for node, follower in followers.items():
        if follower.fetched_ms >= since_ms:
            yield node
