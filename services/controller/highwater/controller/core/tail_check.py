"""Whether a node that comes back still has everything that it had acknowledged (KIP-966).

`membership.keeps_its_tail` trusts the kernel's boot id alone. That misses a disk that was replaced
or emptied while the machine ran on (KAFKA-14139): the page cache survived, but it is not this
directory's. Here the directories have to be those of the incarnation that the controller knows.
"""

from dataclasses import dataclass

from highwater.model.cluster import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEvidence:
    """What the log directories say of the incarnation that wrote to them last."""

    node_epoch: int
    """Its node epoch, written when it was registered; -1 if a directory lacks it or they differ,
    and also if a write to one of them had failed: its page cache cannot be trusted."""
    clean_shutdown: bool
    """It, and no later one that was never registered, closed all logs in order and synced them."""
    boot_id: str
    """The kernel's boot id now."""


def has_its_tail(before: NodeState, boot_id_before: str, evidence: DiskEvidence) -> bool:
    """True if nothing that the former incarnation wrote can be missing.

    It was closed in order, or the same kernel still holds what it had not synced.
    """
    if evidence.node_epoch != before.node_epoch:
        return False
    return evidence.clean_shutdown or (bool(boot_id_before) and evidence.boot_id == boot_id_before)
