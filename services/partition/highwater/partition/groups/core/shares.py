"""How instances share what is limited in one shard: groups, members, their metadata, and offsets."""

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.core.instance_counts import InstanceCounts


def has_places(instance: InstanceId, more: int, *, own: int, left: int) -> bool:
    """Whether the instance, which has `own`, may have so many more of the `left` that nobody has.

    A shard of several instances always has room for one that has few: each may have as many as there
    are places left, so one alone gets half of them, and n get n/(n + 1). The default instance has
    its shards for itself.
    """
    return more + (0 if instance == DEFAULT_INSTANCE else own) <= left


class SharedCounts(InstanceCounts):
    """Belongs to a shard. How much each instance has there, and all of them together."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def add(self, instance: InstanceId, change: int) -> None:
        """So much more, or less."""
        super().add(instance, change)
        self.total += change

    def has_places(self, instance: InstanceId, more: int, *, limit: int) -> bool:
        """Whether the instance may have so much more, if all together may have no more than `limit`."""
        return has_places(instance, more, own=self[instance], left=limit - self.total)

    def copy(self) -> "SharedCounts":
        """A copy that later changes do not change."""
        copy = SharedCounts()
        for instance, count in self.items():
            copy.add(instance, count)
        return copy
