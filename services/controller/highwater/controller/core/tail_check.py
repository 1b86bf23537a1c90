"""Whether a node that comes back still has everything that it had acknowledged (KIP-966, R12).

`membership.keeps_its_tail` compares the kernel's boot id, which misses a disk that was replaced or
emptied while the machine ran on (KAFKA-14139), and the node epoch of a clean end, which a node
that was killed right after its registration never learned. Here the node's directories say which
incarnations wrote to them without a gap (`highwater.partition.core.lineage`).
"""

from collections.abc import Sequence

from highwater.model.cluster import NodeState


def has_its_tail(before: NodeState, lineage: Sequence[str]) -> bool:
    """True if the directories hold all that the incarnation wrote that the controller knows.

    `lineage` are the incarnations since the last gap: a power cut, a failed write, another disk.
    """
    return before.incarnation in lineage
