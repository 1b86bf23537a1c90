"""Which sessions a gateway keeps (Kafka's `FetchSessionTest.testSessionCache` and following)."""

from itertools import chain, repeat

import pytest

from highwater.gateway.core.budget import SESSIONS_SHARE, MemoryBudget
from highwater.gateway.core.fetch_session_cache import (
    PARTITION_BYTES,
    PLACES_MAX,
    SESSION_BYTES,
    FetchSessionCache,
)
from highwater.kafka.messages.fetch import FetchRequestFetchPartition

EVICTION_MS = 1000


class World:
    def __init__(self, slots=3, partitions=10_000, ids=range(1, 100)):
        room = slots * SESSION_BYTES + partitions * PARTITION_BYTES
        self.budget = MemoryBudget(room * SESSIONS_SHARE)
        self.ended = []
        numbers = iter(ids)
        self.cache = FetchSessionCache(
            slots=slots,
            eviction_ms=EVICTION_MS,
            budget=self.budget,
            new_id=lambda *_: next(numbers),
            ended=lambda session: self.ended.append(session.session_id),
        )

    def open(self, size, now_ms, owner="me"):
        """The id of a new session with so many partitions; None if there is none."""
        session = self.cache.open(owner, False, size, now_ms)
        if session is None:
            return None
        self.grow(session, size)
        return session.session_id

    def grow(self, session, size):
        for n in range(len(session.partitions), size):
            session.ask("topic", bytes(16), FetchRequestFetchPartition(partition=n))

    def use(self, session_id, now_ms):
        session = self.cache.find(session_id, "me")
        assert session is not None
        return self.cache.touch(session, now_ms)

    @property
    def alive(self):
        return {n for n in range(1, 100) if self.cache.find(n, "me") is not None}


def test_a_full_cache_gives_no_session():
    w = World()
    assert [w.open(10, 0) for _ in range(4)] == [1, 2, 3, None]
    assert (len(w.cache), w.cache.partitions, w.cache.evictions) == (3, 30, 0)
    assert not w.cache.may_open(10, 0)


def test_without_slots_there_are_no_sessions():
    w = World(slots=0)
    assert not w.cache.may_open(1, 0)
    assert w.open(1, 0) is None


def test_a_session_that_rests_is_evicted():
    """The one that was used longest ago, for a session of any size."""
    w = World()
    for now_ms in range(3):
        w.open(10, now_ms)
    w.use(1, 500)
    assert w.open(1, EVICTION_MS + 1) is None
    assert w.cache.may_open(1, EVICTION_MS + 2)
    assert w.open(1, EVICTION_MS + 2) == 4
    assert (w.alive, w.ended, w.cache.evictions) == ({1, 3, 4}, [2], 1)
    assert w.cache.partitions == 21


def test_a_larger_session_evicts_the_smallest_that_was_not_made_lately():
    w = World()
    for size in (30, 10, 20):
        w.open(size, 0)
    for n in (1, 2, 3):
        w.use(n, 900)
    assert w.open(100, 900) is None, "all were made lately"
    for n in (1, 2, 3):
        w.use(n, EVICTION_MS + 1)
    assert w.open(10, EVICTION_MS + 1) is None, "none is smaller"
    assert not w.cache.may_open(10, EVICTION_MS + 1)
    assert w.open(11, EVICTION_MS + 1) == 4
    assert w.alive == {1, 3, 4}
    w.use(4, EVICTION_MS + 2)
    assert w.open(25, EVICTION_MS + 2) == 5
    assert (w.alive, w.cache.evictions) == ({1, 4, 5}, 2)


def test_a_session_that_changes_its_size_is_evicted_by_that():
    w = World(slots=2)
    w.open(10, 0)
    w.open(20, 0)
    for n in (1, 2):
        w.use(n, EVICTION_MS + 1)
    w.grow(w.cache.find(1, "me"), 40)
    assert w.use(1, EVICTION_MS + 1)
    assert w.cache.partitions == 60
    assert w.open(30, EVICTION_MS + 1) == 3
    assert w.alive == {1, 3}


def test_memory_bounds_sessions_too():
    w = World(slots=4, partitions=100)
    assert w.open(10_000, 0) is None, "more than there ever is"
    assert w.open(60, 0) == 1
    assert w.open(60, 0) is None
    assert w.open(30, 0) == 2
    assert w.budget.sessions == 2 * SESSION_BYTES + 90 * PARTITION_BYTES
    assert w.open(80, EVICTION_MS + 1) == 3, "two that rest make room"
    assert (w.alive, w.ended) == ({3}, [1, 2])


def test_a_session_that_grows_beyond_the_memory_ends():
    w = World(slots=1, partitions=100)
    w.open(60, 0)
    session = w.cache.find(1, "me")
    w.grow(session, 90)
    assert w.use(1, 5)
    w.grow(session, 200)
    assert not w.use(1, 5)
    assert (w.alive, w.ended, w.budget.sessions, w.cache.partitions) == (set(), [1], 0, 0)


def test_a_session_is_found_only_by_its_owner():
    w = World()
    w.open(1, 0, owner="me")
    assert w.cache.find(1, "somebody else") is None
    assert w.cache.find(2, "me") is None


def test_ids_in_use_are_not_given_again():
    w = World(ids=chain([5, 5, 5, 6], repeat(7)))
    assert [w.open(1, 0) for _ in range(2)] == [5, 6]


@pytest.mark.parametrize("used", [False, True])
def test_a_removed_session_gives_everything_back(used):
    w = World()
    w.open(10, 0)
    if used:
        w.use(1, EVICTION_MS + 1)
    session = w.cache.find(1, "me")
    for _ in range(2):
        w.cache.remove(session)
    assert (w.ended, len(w.cache), w.cache.partitions, w.budget.sessions) == ([1], 0, 0, 0)
    assert w.cache.evictions == 0


def test_a_session_ends_before_its_places_are_too_large_for_the_hop():
    w = World()
    assert w.open(1, 0) == 1
    session = w.cache.find(1, "me")
    session.next_place = PLACES_MAX
    assert w.use(1, 1)
    w.grow(session, 2)
    assert not w.use(1, 2)
    assert (w.ended, w.budget.sessions) == ([1], 0)
