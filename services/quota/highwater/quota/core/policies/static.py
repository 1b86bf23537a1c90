"""Shares by leader count: F_i = L * leaders_i / sum of leaders. Ignores the demand.

Also the floor of every other policy: the shares to which nodes return by themselves, when they cannot
reach the quota service, must add up to the limit. Replica counts would be bad weights: with as many
replicas as nodes, all nodes would weigh the same.
"""

from highwater.model.ids import NodeId
from highwater.quota.core.policies.port import Sharing
from highwater.quota.core.policies.whole_bytes import divide


class StaticPolicy:
    """Like Kafka's fixed per-broker quota, but computed from the instance's whole limit."""

    name = "static"

    def share(self, sharing: Sharing) -> dict[NodeId, int]:
        """Whole bytes that add up to the limit exactly."""
        return divide(sharing.limit, sharing.leaders)
