"""CKafka's sharing algorithm, as its makers describe it: by the flow that was served last.

With s_i the bytes per second that node i served, S their sum, F_i its static share of the limit L:

1. At the storage limit produce is refused everywhere, and consume goes on (the ledger's business).
2. If nothing flows, or every s_i < 80 % of F_i, each node gets F_i.
3. P_i = s_i / S, M the largest of them, of node j (the lowest id), m the smallest.
4. If m >= 80 % of M, each node gets P_i * L.
5. Else node j gets M * L, and every other min(P_i + 0.1 * M, M) * L.

The description says "allocate P_i" where P_i is a ratio; its part of L is meant. A node whose leaders
are so new that it has not measured them gets F_i at least.

The shares of step 5 add up to more than the limit: to at most 1 + 0.1 * (n - 1) * M times L with n nodes.
It sees served flow, not demand, so it takes a node that is held back for a satisfied one. Use it to
compare; `waterfill` has neither flaw.
"""

from typing import Final

from highwater.model.ids import NodeId
from highwater.quota.core.policies.port import Sharing
from highwater.quota.core.policies.whole_bytes import divide

QUIET: Final = 0.8
"""Below this part of its static share a node is quiet."""
ALIKE: Final = 0.8
"""The flows are alike if the smallest is at least this part of the largest."""
BONUS: Final = 0.1
"""Part of the largest flow that each node gets on top of its own, so that it can grow."""


class CkafkaPolicy:
    """See the module."""

    name = "ckafka"

    def share(self, sharing: Sharing) -> dict[NodeId, int]:
        """Whole bytes, rounded down; their sum may be above the limit."""
        fixed = divide(sharing.limit, sharing.leaders)
        flows = {
            node: sharing.demands[node].served if node in sharing.demands else 0.0 for node in fixed
        }
        total = sum(flows.values())
        if total == 0 or all(flow < QUIET * fixed[node] for node, flow in flows.items()):
            return fixed
        parts = {node: flow / total for node, flow in flows.items()}
        largest = max(parts.values())
        if min(flows.values()) < ALIKE * max(flows.values()):
            # Node j has the largest part, so the minimum is M for it, too.
            parts = {node: min(part + BONUS * largest, largest) for node, part in parts.items()}
        shares = {node: int(part * sharing.limit) for node, part in parts.items()}
        return {
            node: share if node in sharing.demands else max(share, fixed[node])
            for node, share in shares.items()
        }
