"""Members that all read the same topics get equally many partitions, one more or less.

Kafka: `UniformHomogeneousAssignmentBuilder`. Balance comes first, then members keep what they have.
Unlike in Kafka those who have one more keep it, and what a member gives up or gets is spread over the
topics: as few partitions move as balance allows, and members that share a group's load share that of
each topic.
"""

from collections import Counter
from collections.abc import Iterator

from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.hand_out import hand_out
from highwater.partition.groups.consumer.assignors.owners import Owners, Partition


def assign_alike(owners: Owners) -> Steps[None]:
    """Gives every partition an owner; those that they have now are what members keep if they can."""
    quotas = _quotas(owners)
    yield from _give_up(owners, quotas)
    free = yield from owners.free()
    room = {number: quota - owners.sizes[number] for number, quota in enumerate(quotas)}
    yield from hand_out(owners, free, room)


def _quotas(owners: Owners) -> list[int]:
    """How many partitions each member gets: one more for some, those first that have them."""
    total = sum(topic.partitions for topic in owners.topics.values())
    base, extra = divmod(total, len(owners.members))
    having_more = [number for number, size in enumerate(owners.sizes) if size > base]
    others = [number for number, size in enumerate(owners.sizes) if size <= base]
    quotas = [base] * len(owners.members)
    for number in (having_more + others)[:extra]:
        quotas[number] += 1
    return quotas


def _give_up(owners: Owners, quotas: list[int]) -> Steps[None]:
    """Members lose what is more than their quotas: far partitions, the last ones of each topic."""
    rich = {
        number: _Holding() for number, owned in enumerate(owners.sizes) if owned > quotas[number]
    }
    if not rich:
        return
    for topic_id, of in owners.of.items():
        ranks: Counter[int] = Counter()
        for partition, number in enumerate(of):
            if number in rich:
                local = owners.is_local(topic_id, partition, number)
                rich[number].add(Partition(topic_id, partition), ranks[number], local=local)
                ranks[number] += 1
            if owners.pace.is_full():
                yield
        if owners.pace.is_full():
            yield
    for number, holding in rich.items():
        for place, (topic_id, partition) in enumerate(holding.in_order()):
            if place >= quotas[number]:
                owners.take(topic_id, partition)
            if owners.pace.is_full():
                yield


class _Holding:
    """What one member owns, in an order that costs no sorting, however much it is."""

    __slots__ = ("_far", "_local")

    def __init__(self) -> None:
        self._local: list[list[Partition]] = []
        """By rank: the first partitions of each topic, the second ones, and so on."""
        self._far: list[list[Partition]] = []

    def add(self, partition: Partition, rank: int, *, local: bool) -> None:
        """Topics come one after another; `rank` counts the member's partitions of the topic."""
        ranked = self._local if local else self._far
        while len(ranked) <= rank:
            ranked.append([])
        ranked[rank].append(partition)

    def in_order(self) -> Iterator[Partition]:
        """Those to keep first: local ones, and the first ones of each topic."""
        for ranked in (self._local, self._far):
            for same in ranked:
                yield from same
