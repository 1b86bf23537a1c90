"""What bounds an instance's number of groups beyond one shard: its own limit (`groups_max`).

A new group beyond it is refused with POLICY_VIOLATION, as everything at an instance's limits is; groups
that exist go on (decision 203).
"""

from collections.abc import Callable
from typing import Final

from highwater.model.ids import InstanceId

GroupLimit = Callable[[InstanceId], str]
"""Why the instance may have no further group in the cluster; empty if it may."""

COORDINATOR_FULL: Final = "The coordinator has reached its maximum capacity."


def no_limit(_instance: InstanceId) -> str:
    """Of a coordinator whose instances have no limits."""
    return ""
