"""Members that all read the same topics get equally many partitions, one more or less.

Kafka: `UniformHomogeneousAssignmentBuilder`. Balance comes first, then members keep what they have.
Unlike in Kafka those who have one more keep it, and what a member gives up or gets is spread over the
topics: as few partitions move as balance allows, and members that share a group's load share that of
each topic.
"""

from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.hand_out import hand_out
from highwater.partition.groups.consumer.assignors.owners import STEP_PARTITIONS, Owners


def assign_alike(owners: Owners) -> Steps[None]:
    """Gives every partition an owner; those that they have now are what members keep if they can."""
    quotas = _quotas(owners)
    yield from _give_up(owners, quotas)
    free = owners.free()
    yield
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
    rich = {number: owned for number, owned in enumerate(owners.sizes) if owned > quotas[number]}
    if not rich:
        return
    kept: dict[int, list[tuple[bool, int, int, TopicId, int]]] = {number: [] for number in rich}
    done = 0
    for place, (topic_id, of) in enumerate(owners.of.items()):
        ranks = dict.fromkeys(rich, 0)
        for partition, number in enumerate(of):
            if number in rich:
                far = not owners.is_local(topic_id, partition, number)
                kept[number].append((far, ranks[number], place, topic_id, partition))
                ranks[number] += 1
        done += len(of)
        if done >= STEP_PARTITIONS:
            done = 0
            yield
    for number, partitions in kept.items():
        partitions.sort()
        for _, _, _, topic_id, partition in partitions[quotas[number] :]:
            owners.take(topic_id, partition)
        yield
