"""How many keys each instance has in one shard."""

from collections.abc import ItemsView

from highwater.model.ids import InstanceId


class InstanceCounts:
    """Belongs to a shard. Instances without any are not in it, so purged ones leave nothing."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[InstanceId, int] = {}

    def __getitem__(self, instance: InstanceId) -> int:
        """How many the instance has."""
        return self._counts.get(instance, 0)

    def items(self) -> ItemsView[InstanceId, int]:
        """The instances that have some."""
        return self._counts.items()

    def add(self, instance: InstanceId, change: int) -> None:
        """So many more, or fewer."""
        count = self._counts.get(instance, 0) + change
        assert count >= 0
        if count:
            self._counts[instance] = count
        else:
            self._counts.pop(instance, None)
