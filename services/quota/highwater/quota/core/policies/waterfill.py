"""Shares by demand: weighted max-min fairness over a small floor, and all of the limit given out.

With L the limit, w_i node i's part of the leaders, F_i = w_i * L and d_i its demand (bytes that it served
and bytes that it held back):

1. Every node gets 3 % of F_i, so that an idle one can begin again.
2. The other 97 % of L are filled like water: each node gets what it lacks to d_i, but nobody more than
   by his weight while others lack something.
3. Of what is left, 80 % go by weight to the nodes that held something back, and the rest by weight to all:
   room to grow before the next tick. A node cannot tell how much a client would send that it made wait,
   only that it waits; without this rule its share would double from tick to tick at best.

The shares add up to L always. A node that has not told its demand is taken to want F_i: it may be cut off
and going by that share (see RateSchedule). So quota services that each hear some of the nodes only
never give away more than L together, without knowing of each other.
"""

import math
from collections.abc import Mapping
from typing import Final

from highwater.model.ids import NodeId
from highwater.quota.core.policies.port import Sharing
from highwater.quota.core.policies.whole_bytes import divide

FLOOR_PER_MILLE: Final = 30
"""Of the static share, whatever the demand: enough to begin with, and it costs little."""

HELD_PERCENT: Final = 80
"""Of what is left, for nodes that held something back. With all of it, the others would have to wait first
whenever they want more; see docs/quota-shares.md."""


class WaterfillPolicy:
    """See the module."""

    name = "waterfill"

    def share(self, sharing: Sharing) -> dict[NodeId, int]:
        """Whole bytes that add up to the limit exactly. O(n log n)."""
        fixed = divide(sharing.limit, sharing.leaders)
        if not fixed:
            return {}
        shares = {node: part * FLOOR_PER_MILLE // 1000 for node, part in fixed.items()}
        lacks = {
            node: max(0, _wanted(sharing, node, fixed[node]) - share)
            for node, share in shares.items()
        }
        _add(shares, fill(sharing.limit - sum(shares.values()), lacks, sharing.leaders))
        held = {
            node: weight
            for node, weight in sharing.leaders.items()
            if node in sharing.demands and sharing.demands[node].held > 0
        }
        _add(shares, divide((sharing.limit - sum(shares.values())) * HELD_PERCENT // 100, held))
        _add(shares, divide(sharing.limit - sum(shares.values()), sharing.leaders))
        return shares


def fill(
    amount: int, lacks: Mapping[NodeId, int], weights: Mapping[NodeId, int]
) -> dict[NodeId, int]:
    """Weighted max-min fair parts of `amount`: nobody gets more than he lacks, and who gets less
    gets as much for his weight as anybody.
    """
    parts: dict[NodeId, int] = {}
    left, weight_left = amount, sum(weights[node] for node in lacks)
    order = sorted(lacks, key=lambda node: (lacks[node] / weights[node], node))
    for position, node in enumerate(order):
        if lacks[node] * weight_left > left * weights[node]:
            # From here on everybody lacks more than his part.
            rest = {one: weights[one] for one in order[position:]}
            return parts | divide(left, rest)
        parts[node] = lacks[node]
        left -= lacks[node]
        weight_left -= weights[node]
    return parts


def _add(shares: dict[NodeId, int], parts: Mapping[NodeId, int]) -> None:
    for node, part in parts.items():
        shares[node] += part


def _wanted(sharing: Sharing, node: NodeId, fixed: int) -> int:
    demand = sharing.demands.get(node)
    return fixed if demand is None else math.ceil(demand.served + demand.held)
