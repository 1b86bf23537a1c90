"""Gives free partitions to members that have room for them, close ones first.

How many each member gets is decided before, so that racks cost neither balance nor stickiness (a
partition that has an owner is not free). Kafka's assignors do not look at racks any more.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain

from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.owners import Owners, Partition
from highwater.partition.groups.consumer.assignors.pace import UNIT_MEMBERS


def hand_out(
    owners: Owners, partitions: Sequence[Partition], room: Mapping[int, int]
) -> Steps[None]:
    """Members own these partitions; `room`: {member: how many it gets}, together all of them.

    Members take turns, so that each gets some of every topic. First each partition goes to a member
    in a rack of its replicas if one has room, those with the fewest such racks before others.
    """
    assert sum(room.values()) == len(partitions)
    left = {number: count for number, count in room.items() if count}
    if owners.pace.is_full(1 + len(room) // UNIT_MEMBERS):
        yield
    partitions = yield from _hand_out_locally(owners, partitions, left)
    turns = deque(number for number, count in left.items() if count)
    for partition in partitions:
        number = turns.popleft()
        owners.give([(partition, number)])
        left[number] -= 1
        if left[number]:
            turns.append(number)
        if owners.pace.is_full():
            yield


def _hand_out_locally(
    owners: Owners, partitions: Sequence[Partition], left: dict[int, int]
) -> Steps[Sequence[Partition]]:
    """Lowers `left`; returns the partitions that no member in one of their racks has room for."""
    turns: dict[str, deque[int]] = {}
    for number in left:
        rack = owners.members[number].rack_id
        if rack is not None:
            turns.setdefault(rack, deque()).append(number)
    if not turns or not any(topic.racks for topic in owners.topics.values()):
        return partitions
    room = {rack: sum(left[number] for number in members) for rack, members in turns.items()}
    by_choices: dict[int, list[tuple[Partition, set[str]]]] = {}
    """{count of racks to choose from: (partition, these racks)}"""
    for partition in partitions:
        racks = turns.keys() & _racks(owners, partition)
        by_choices.setdefault(len(racks), []).append((partition, racks))
        if owners.pace.is_full():
            yield
    rest: list[Partition] = []
    for partition, racks in chain.from_iterable(by_choices[count] for count in sorted(by_choices)):
        if owners.pace.is_full(2):
            yield
        rack = max(racks, key=lambda one: (room[one], one), default=None)
        if rack is None or not room[rack]:
            rest.append(partition)
            continue
        number = turns[rack].popleft()
        owners.give([(partition, number)])
        room[rack] -= 1
        left[number] -= 1
        if left[number]:
            turns[rack].append(number)
    return rest


def _racks(owners: Owners, partition: Partition) -> tuple[str, ...]:
    racks = owners.topics[partition.topic_id].racks
    return racks[partition.partition] if racks else ()
