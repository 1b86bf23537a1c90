"""Shares by leader count: F_i = L * leaders_i / sum of leaders. Ignores the demand.

Also the floor of every other policy: shares that a node falls back to by itself when it no longer
hears from the quota service have to add up to the limit without anybody's help. Replicas would not
do as weights, because with as many replicas as nodes all nodes weigh the same.
"""

from highwater.model.ids import NodeId
from highwater.quota.core.policies.port import Sharing


class StaticPolicy:
    """Kafka's fixed per-broker quota, but of the instance's whole limit."""

    name = "static"

    def share(self, sharing: Sharing) -> dict[NodeId, int]:
        """Whole bytes that add up to the limit exactly (largest remainders first)."""
        total = sum(sharing.leaders.values())
        if total == 0:
            return {}
        shares: dict[NodeId, int] = {}
        remainders: list[tuple[int, NodeId]] = []
        for node, count in sharing.leaders.items():
            shares[node], remainder = divmod(sharing.limit * count, total)
            remainders.append((-remainder, node))
        left = sharing.limit - sum(shares.values())
        assert 0 <= left < len(shares)
        # Equal remainders go by node id, so that every quota service decides alike.
        for _, node in sorted(remainders)[:left]:
            shares[node] += 1
        return shares
