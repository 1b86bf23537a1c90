"""Producers by id, in generations by when they last wrote: the longest silent are found at once.

One `dict` for all would do to look producers up, but not to find the oldest: to keep it in order
costs every batch a removal, and leaves holes that double the table. Here a batch of a producer in the
newest generation costs one lookup; a producer that writes again after a while moves there.

Whoever looks for producers to forget and finds one that has to stay holds it back: it is then out of
the way of every later search, until it writes again.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

TABLE_MAX: Final = 1 << 14
GENERATIONS_MIN: Final = 4
"""A generation has at most such a part of the producers that there may be: so exact is the order of
those that write again."""
GENERATIONS_MAX: Final = 16
"""Beyond that the two neighbours that have the fewest producers become one: those that have moved
leave room behind that is not given back otherwise."""


class ProducerGenerations:
    """The packed batches of producers; see the module. Owned by the owner of the log.

    `newest` is looked at before `take` or `find`: it is replaced when it is full.
    """

    __slots__ = ("_count", "_held", "_oldest", "_size", "newest", "older")

    def __init__(self, limit: int) -> None:
        """`limit` is the number of producers that the caller will keep."""
        table = TABLE_MAX
        while table > 1 and _filling(table) * GENERATIONS_MIN > limit:
            table //= 2
        self._size = max(_filling(table), 1)
        """Producers with which a generation is full: its table then has no room to spare."""
        self.clear()

    def clear(self) -> None:
        """Forgets all."""
        self.newest: dict[int, bytes] = {}
        self.older: list[dict[int, bytes]] = []
        """Oldest first."""
        self._oldest: Iterator[int] = iter(())
        """Ids of `older[0]` that were not offered to `pop_oldest` yet; some may have moved."""
        self._held: dict[int, bytes] = {}
        """Held back from `pop_oldest`: all are older than `older`."""
        self._count = 0

    def __len__(self) -> int:
        """Producers in all generations, if `take` is called before one is added."""
        return self._count

    def find(self, producer_id: int) -> bytes | None:
        """A producer's batches, of whatever generation."""
        batches = self.newest.get(producer_id)
        if batches is None:
            for generation in reversed(self.older):
                batches = generation.get(producer_id)
                if batches is not None:
                    return batches
            return self._held.get(producer_id)
        return batches

    def take(self, producer_id: int) -> bytes | None:
        """Makes room in `newest` for a producer that is not in it, and gives what was known of it.

        The caller puts it there.
        """
        for generation in reversed(self.older):
            batches = generation.pop(producer_id, None)
            if batches is not None:
                break
        else:
            batches = self._held.pop(producer_id, None)
            self._count += batches is None
        if len(self.newest) >= self._size:
            self._begin_generation()
        return batches

    def remove(self, producer_id: int) -> None:
        """Forgets one that is there."""
        for generation in (self.newest, *reversed(self.older), self._held):
            if generation.pop(producer_id, None) is not None:
                self._count -= 1
                return

    def pop_oldest(self) -> tuple[int, bytes] | None:
        """Removes the producer that has not written for the longest; None if there is none but those
        that are held back.

        Within a generation the order is that of each producer's first batch in it.
        """
        while True:
            while self.older and not self.older[0]:
                del self.older[0]
                self._oldest = iter(())
            if not self.older:
                if not self.newest:
                    return None
                self._begin_generation()
            oldest = self.older[0]
            for producer_id in self._oldest:
                batches = oldest.pop(producer_id, None)
                if batches is not None:
                    self._count -= 1
                    return producer_id, batches
            self._oldest = iter(list(oldest))

    def hold(self, producer_id: int, batches: bytes) -> None:
        """Puts back what `pop_oldest` has given, which does not give it again before the producer has
        written (`take`).
        """
        self._held[producer_id] = batches
        self._count += 1

    def renew(self, producer_id: int, batches: bytes) -> None:
        """Puts back what `pop_oldest` has given, which gives it again after all others."""
        if len(self.newest) >= self._size:
            self._begin_generation()
        self.newest[producer_id] = batches
        self._count += 1

    def ids(self) -> list[int]:
        """All producers, oldest first."""
        parts = (self._held, *self.older, self.newest)
        return [producer_id for part in parts for producer_id in part]

    def batches(self) -> list[bytes]:
        """All producers' batches, oldest first; one pass of C, about 10 ns for each."""
        found: list[bytes] = []
        for generation in (self._held, *self.older, self.newest):
            found += generation.values()
        return found

    def _begin_generation(self) -> None:
        self.older = [generation for generation in self.older if generation]
        self.older.append(self.newest)
        self.newest = {}
        if len(self.older) > GENERATIONS_MAX:
            sizes = [len(one) + len(other) for one, other in pairwise(self.older)]
            place = sizes.index(min(sizes))
            one, other = self.older[place : place + 2]
            self.older[place : place + 2] = [{**one, **other}]


def _filling(table: int) -> int:
    """How many entries CPython puts into a dict's table, a power of two, before it grows."""
    return table * 2 // 3
