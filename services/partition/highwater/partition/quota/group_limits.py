"""Whether an instance may have a further group, as this node knows it.

A group's coordinator may be any node, so each tells the quota service how many groups it coordinates of
each instance that has a limit, once a tick, and hears the sum. What the other nodes have is that sum
without its own number; to this it adds what it has now. So one node stops at the limit, n nodes that
make groups at the same time may make up to n - 1 times as many as were left, and no more than they do
in a tick. Groups that end make room at once where they were, elsewhere with the next report.

Limits come with the metadata. Without a quota service each node goes by its own groups alone, or by what
it heard last of the others.
"""

from typing import Protocol

from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.runtime.logging import Logger


class CountedGroups(Protocol):
    """The groups that this node coordinates."""

    def count_groups(self, instance: InstanceId) -> int:
        """Those of one instance."""
        ...

    def count_group_shards(self) -> int:
        """Partitions whose groups are counted: those that are loaded."""
        ...


class GroupLimits:
    """On the node's loop, as long as the node."""

    def __init__(self, log: Logger) -> None:
        """Nobody is limited before the first image."""
        self._log = log
        self._limits: dict[InstanceId, int] = {}
        self._elsewhere: dict[InstanceId, int] = {}
        """Groups that other nodes have, of instances with limits; none before the service tells."""
        self._reported: dict[InstanceId, int] = {}
        """Groups here at the last report."""
        self._refused: dict[InstanceId, int] = {}
        """New groups that were refused since then."""

    def follow(self, image: ClusterImage) -> None:
        """Takes the limits of a newer image."""
        self._limits = {
            instance: state.groups_max
            for instance, state in image.instances.items()
            if state.groups_max is not None
        }
        for instance in [one for one in self._elsewhere if one not in self._limits]:
            del self._elsewhere[instance]

    def refusal(self, instance: InstanceId, here: int) -> str:
        """Why the instance, of which `here` groups are here, may have no further one; empty if it may."""
        limit = self._limits.get(instance)
        if limit is None:
            return ""
        count = here + self._elsewhere.get(instance, 0)
        if count < limit:
            return ""
        self._refused[instance] = self._refused.get(instance, 0) + 1
        return (
            f"instance {instance} has reached its limit of groups: it has {count} of {limit} "
            "(groups_max). Delete groups that are not used any more, or raise the limit; groups that "
            "exist go on"
        )

    def report(self, groups: CountedGroups) -> dict[InstanceId, int]:
        """Groups here of each instance with a limit, for a report that is made now."""
        for instance, refused in self._refused.items():
            # JoinGroup and OffsetCommit have no room for the message.
            self._log.info(
                "new_groups_refused",
                instance=instance,
                refused=refused,
                limit=self._limits.get(instance),
            )
        self._refused = {}
        self._reported = {instance: groups.count_groups(instance) for instance in self._limits}
        return self._reported

    def take(self, instance: InstanceId, total: int) -> None:
        """News of the service: how many groups the instance has, on all nodes."""
        if instance in self._limits:
            self._elsewhere[instance] = max(0, total - self._reported.get(instance, 0))
