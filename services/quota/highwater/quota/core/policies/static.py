"""Shares by leader count: F_i = L * leaders_i / sum of leaders. Ignores the demand.

Also the floor of every other policy: the shares to which nodes return by themselves, when they cannot
reach the quota service, must add up to the limit. Replica counts would be bad weights: with as many
replicas as nodes, all nodes would weigh the same.
"""

from highwater.model.ids import NodeId
from highwater.quota.core.policies.port import Sharing


class StaticPolicy:
    """Like Kafka's fixed per-broker quota, but computed from the instance's whole limit."""

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
        # Ties are broken by node id, so that all quota services get the same result.
        for _, node in sorted(remainders)[:left]:
            shares[node] += 1
        return shares
