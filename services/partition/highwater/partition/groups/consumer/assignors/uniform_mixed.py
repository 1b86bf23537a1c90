"""Members that read different topics get as equally many partitions as these allow.

Kafka: `UniformHeterogeneousAssignmentBuilder`. Balance comes first, then members keep what they have.
In the end no partition can be moved so that two members are closer to one another, unless that
takes too many rounds; chains of such moves are not looked for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final

from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.hand_out import hand_out
from highwater.partition.groups.consumer.assignors.owners import Owners, Partition

_ROUNDS_MAX: Final = 16
"""Kafka's. One is enough if all readers of a topic read the same topics; if they do not, each
brings members about twice as close to one another."""
_UNIT_READERS: Final = 5
"""Readers that are put into a heap in the time of one unit."""


def assign_mixed(owners: Owners, readers: Mapping[TopicId, Sequence[int]]) -> Steps[None]:
    """Gives every partition an owner; those that they have now are what members keep if they can."""
    topic_ids = _in_order(owners, readers)
    for topic_id in topic_ids:
        free = yield from owners.free_of(topic_id)
        room = yield from _filled_up(owners, readers[topic_id], len(free))
        yield from hand_out(owners, free, room)
    yield from _balance(owners, {one: readers[one] for one in topic_ids if len(readers[one]) > 1})


def _in_order(owners: Owners, readers: Mapping[TopicId, Sequence[int]]) -> list[TopicId]:
    """Topics with the most partitions for each reader first, then those with the fewest readers."""

    def key(topic_id: TopicId) -> tuple[float, int]:
        count = len(readers[topic_id])
        return -owners.topics[topic_id].partitions / count, count

    return sorted(owners.topics, key=key)


def _filled_up(owners: Owners, readers: Sequence[int], count: int) -> Steps[Counter[int]]:
    """{reader: how many it gets} if those that have the least get `count` partitions one by one."""
    heap = [(owners.sizes[number], number) for number in readers]
    heapify(heap)
    gets: Counter[int] = Counter()
    if owners.pace.is_full(1 + len(heap) // _UNIT_READERS):
        yield
    for _ in range(count):
        size, number = heap[0]
        gets[number] += 1
        heapreplace(heap, (size + 1, number))
        if owners.pace.is_full():
            yield
    return gets


def _balance(owners: Owners, readers: Mapping[TopicId, Sequence[int]]) -> Steps[None]:
    """Moves partitions from members that have more to members that have less, topic by topic."""
    still = 0
    """Topics one after another of which nothing was moved."""
    for _ in range(_ROUNDS_MAX):
        for topic_id, numbers in readers.items():
            moved = yield from _balance_topic(owners, topic_id, numbers)
            still = 0 if moved else still + 1
            if still >= len(readers):
                return


def _balance_topic(owners: Owners, topic_id: TopicId, readers: Sequence[int]) -> Steps[bool]:
    """True if something was moved."""
    gives, gets = yield from _levelled(owners, readers, Counter(owners.of[topic_id]))
    if not gives:
        return False
    owned: dict[int, list[int]] = {number: [] for number in gives}
    for partition, number in enumerate(owners.of[topic_id]):
        if number in owned:
            owned[number].append(partition)
        if owners.pace.is_full():
            yield
    moving = []
    for number, count in gives.items():
        for partition in _least_close(owners, topic_id, number, owned[number])[:count]:
            moving.append(Partition(topic_id, partition))
            owners.take(topic_id, partition)
        if owners.pace.is_full(1 + len(owned[number])):
            yield
    yield from hand_out(owners, sorted(moving), gets)
    return True


def _levelled(
    owners: Owners, readers: Sequence[int], having: Mapping[int, int]
) -> Steps[tuple[Counter[int], Counter[int]]]:
    """How many partitions readers give, of which they have that many, and how many they get."""
    sizes = owners.sizes
    gives: Counter[int] = Counter()
    gets: Counter[int] = Counter()
    poorest = [(sizes[number], number) for number in readers]
    richest = [(-sizes[number], -number) for number in having]
    heapify(poorest)
    heapify(richest)
    if owners.pace.is_full(1 + (len(poorest) + len(richest)) // _UNIT_READERS):
        yield
    while richest and -richest[0][0] - poorest[0][0] > 1:
        minus_size, minus_giver = richest[0]
        size, getter = poorest[0]
        giver = -minus_giver
        gives[giver] += 1
        gets[getter] += 1
        heapreplace(poorest, (size + 1, getter))
        if gives[giver] == having[giver]:
            heappop(richest)
        else:
            heapreplace(richest, (minus_size + 1, minus_giver))
        if owners.pace.is_full():
            yield
    assert not gives.keys() & gets.keys()
    return gives, gets


def _least_close(owners: Owners, topic_id: TopicId, number: int, owned: list[int]) -> list[int]:
    """The member's partitions of the topic, those to give away first: far ones, then the last."""
    return sorted(owned, key=lambda one: (owners.is_local(topic_id, one, number), -one))
