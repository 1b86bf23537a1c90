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
ROUNDS_MAX: Final = 4
"""Partitions that one new producer evicts from. Fewer than two are enough where each new producer
evicts; more have to wait for the next ones after many transactions have ended at once."""
FRUITLESS_PART: Final = 100
"""The part of the limit that new producers may pass it by before partitions are looked at again,
after none of them had a producer that may go."""


class BudgetedProducers(Protocol):
    """The producers of one partition."""

    budget: "ProducerBudget | None"

    def __len__(self) -> int: ...

    @property
    def evictable(self) -> int:
        """How many may go, with one that is about to be added."""
        ...

    def evict(self, most: int) -> int:
        """Forgets producers, the longest silent first; how many. If fewer, perhaps others that may
        go are behind too many that have to stay: a later call goes on there.
        """
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
    most that may go, so that a flood of ids in one partition costs the others nothing. Only producers
    with open transactions have to stay.

    Used by the owner of the logs. A log's producers are adopted when it is hosted and dismissed
    when it is not any more.
    """

    __slots__ = ("_look_above", "_members", "count", "evicted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        """Producers of all members."""
        self.evicted = 0
        """Evicted by this limit or a partition's since the start."""
        self._members: set[BudgetedProducers] = set()
        self._look_above = limit
        """The count beyond which somebody is looked for that may go: the limit, or more when nobody
        was found lately."""

    def adopt(self, producers: BudgetedProducers) -> None:
        """Counts a log's producers from now on, and evicts until the limit is kept, or only producers
        with open transactions are left.
        """
        producers.budget = self
        self._members.add(producers)
        self.count += len(producers)
        while self.count > self.limit and self._evict_from_one():
            pass

    def dismiss(self, producers: BudgetedProducers) -> None:
        """The log is not hosted any more."""
        producers.budget = None
        self._members.remove(producers)
        self.changed(-len(producers))

    def changed(self, difference: int, *, evicted: int = 0) -> None:
        """A member has more producers, or fewer, of which it evicted some. The limit may be passed
        until `keep`.
        """
        self.count += difference
        self.evicted += evicted
        if difference < 0 and self._look_above > self.limit:
            # Those who could not go are fewer now; who comes in their place may be one that can.
            self._look_above = max(self.limit, min(self._look_above, self.count + self._room))

    def keep(self) -> None:
        """Evicts for a new producer, at a bounded cost, so that the limit is kept or only producers
        with open transactions are left.

        Two things may be in the way for a while: many open transactions in front of those that may
        go, which are passed by once (`BudgetedProducers.evict`); and that nobody could go lately:
        then as many new ones as `FRUITLESS_PART` says do not look again.
        """
        if self.count <= self._look_above:
            return
        for _ in range(ROUNDS_MAX):
            if self.count <= self.limit:
                self._look_above = self.limit
                return
            if not self._evict_from_one():
                self._look_above = self.count + self._room
                return

    @property
    def _room(self) -> int:
        """New producers that do not look again, after nobody could go."""
        return min(EVICTED_AT_ONCE, self.limit // FRUITLESS_PART)

    def _evict_from_one(self) -> bool:
        """Evicts from the member with most producers that may go. False if no one has any."""
        most = max(self._members, key=_evictable)
        candidates = most.evictable
        evicted = most.evict(min(EVICTED_AT_ONCE, candidates // 2 + 1))
        # A single one that was not found may be the one that is just being added.
        return evicted > 0 or candidates > 1


def _evictable(producers: BudgetedProducers) -> int:
    return producers.evictable
