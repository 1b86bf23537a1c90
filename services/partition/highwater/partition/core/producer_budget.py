"""How many producers a node keeps the state of, over all its partitions."""

from dataclasses import dataclass
from typing import Final, Protocol

PER_PARTITION_DEFAULT: Final = 100_000
"""About 14 MB of memory, 5 MB of each snapshot. A partition that is written to by that many
producers a day has some that make a producer for every batch."""
PER_NODE_DEFAULT: Final = 500_000
"""About 70 MB with one batch each, 170 MB with five."""
EVICTED_AT_ONCE: Final = 1000
"""Of the partition that has most, so that it is looked for once in a thousand new producers; under
a millisecond."""


class BudgetedProducers(Protocol):
    """The producers of one partition."""

    budget: "ProducerBudget | None"

    def __len__(self) -> int: ...

    def evict(self, most: int) -> int:
        """Forgets producers, the longest silent first; how many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLimits:
    """How long producers are remembered, and how many. Kafka limits the time only (KIP-936, under
    discussion, proposes to throttle users who bring many new producer ids).
    """

    expiration_ms: int = 24 * 3600 * 1000
    """producer.id.expiration.ms"""
    per_partition: int = PER_PARTITION_DEFAULT
    per_node: int = PER_NODE_DEFAULT


class ProducerBudget:
    """Counts the producers of a node's logs; beyond the limit those partitions lose some that have
    most, so that a flood of ids in one partition costs the others nothing.

    Used by the owner of the logs. A log's producers are adopted when it is hosted and dismissed
    when it is not any more.
    """

    __slots__ = ("_members", "count", "evicted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        """Producers of all members."""
        self.evicted = 0
        """Evicted by this limit or a partition's since the start."""
        self._members: set[BudgetedProducers] = set()

    def adopt(self, producers: BudgetedProducers) -> None:
        """Counts a log's producers from now on."""
        producers.budget = self
        self._members.add(producers)
        self.count += len(producers)
        self.keep()

    def dismiss(self, producers: BudgetedProducers) -> None:
        """The log is not hosted any more."""
        producers.budget = None
        self._members.remove(producers)
        self.count -= len(producers)

    def changed(self, difference: int, *, evicted: int = 0) -> None:
        """A member has more producers, or fewer, of which it evicted some. The limit may be passed
        until `keep`.
        """
        self.count += difference
        self.evicted += evicted

    def keep(self) -> None:
        """Evicts until the limit is kept, or only producers with open transactions are left."""
        while self.count > self.limit:
            largest = max(self._members, key=len)
            if not largest.evict(min(EVICTED_AT_ONCE, len(largest) // 2 + 1)):
                return
