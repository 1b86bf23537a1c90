"""Drops what a shard has of purged instances, some at once, so that calls are handled meanwhile."""

from collections import deque
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, Generic, Protocol, TypeVar

from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.values import Moment

KEYS_PER_SLICE: Final = 200
RECORDS_PER_SLICE: Final = 1_000
"""A slice ends with the key that reaches this: less than 100 KB of tombstones, unless one group alone has
more offsets."""


class _OfInstance(Protocol):
    @property
    def instance(self) -> InstanceId:
        """Whose key it is."""
        ...


KeyT = TypeVar("KeyT", bound=_OfInstance)
"""Of a group, or a transactional id."""


class Forgetting(Generic[KeyT]):
    """The keys of purged instances that a shard still has. Lives as long as the shard, which owns it.

    While an instance is in here nobody may add keys to it: a later instance of the same id has to wait.
    """

    def __init__(
        self,
        *,
        keys: Callable[[], Iterable[KeyT]],
        forget: Callable[[KeyT, Moment], bool],
        written: Callable[[], int],
    ) -> None:
        """`keys`: all of the shard. `forget` drops one; False if it has to be tried again.

        `written`: records that the shard has decided on and the host has not taken.
        """
        self._keys = keys
        self._forget = forget
        self._written = written
        self._instances: set[InstanceId] = set()
        self._left: deque[KeyT] = deque()

    def __contains__(self, instance: InstanceId) -> bool:
        """Whether something of the purged instance is left."""
        return instance in self._instances

    def __len__(self) -> int:
        """How many keys are left."""
        return len(self._left)

    def instances(self) -> set[InstanceId]:
        """All that have keys in the shard, purged or not."""
        return {key.instance for key in self._keys()}

    def begin(self, instances: AbstractSet[InstanceId]) -> None:
        """These are purged; looks through all keys, and drops none yet."""
        self._instances |= instances
        self._left = deque(key for key in self._keys() if key.instance in self._instances)
        if not self._left:
            self._instances.clear()

    def step(self, now: Moment) -> None:
        """Drop some; those that have to be tried again come after all others."""
        for _ in range(min(KEYS_PER_SLICE, len(self._left))):
            key = self._left.popleft()
            if not self._forget(key, now):
                self._left.append(key)
            if self._written() >= RECORDS_PER_SLICE:
                break
        if not self._left:
            self._instances.clear()
