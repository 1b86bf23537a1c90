"""Whether a node that comes back still has everything that it had acknowledged (KIP-966, R12).

The node's directories say which incarnations wrote to them without a gap
(`highwater.partition.core.lineage`). A comparison of the kernel's boot ids would miss a disk that
was replaced or emptied while the machine ran on (KAFKA-14139). A comparison of node epochs would
miss a node that was killed right after its registration, before it learned its own epoch.
"""

from collections.abc import Sequence

from highwater.model.cluster import NodeState


def has_its_tail(before: NodeState, lineage: Sequence[str]) -> bool:
    """True if the directories hold everything that the controller's known incarnation wrote.

    `lineage` names the incarnations since the last gap: a power cut, a failed write, another disk.
    A node without a lineage has lost its tail. `election` decides the consequences; a replica that
    is the only one may lead without its tail.
    """
    return before.incarnation in lineage
