"""What members hold or are to hold, as values: {topic: partitions, ascending}, never changed.

A topic without partitions is not in them, so that equal assignments are equal mappings.
"""

from collections.abc import Iterator
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.assignors.types import MemberAssignment

NOTHING: Final[MemberAssignment] = {}


def assignment_of(pairs: Iterator[tuple[TopicId, int]]) -> MemberAssignment:
    """The assignment with these partitions, which may come in any order and more than once."""
    found: dict[TopicId, set[int]] = {}
    for topic_id, partition in pairs:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in found.items()}


def pairs_of(assignment: MemberAssignment) -> Iterator[tuple[TopicId, int]]:
    """Each (topic, partition)."""
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition


def without(assignment: MemberAssignment, other: MemberAssignment) -> MemberAssignment:
    """What is in the first and not in the second."""
    taken = set(pairs_of(other))
    return assignment_of(pair for pair in pairs_of(assignment) if pair not in taken)


def union(one: MemberAssignment, other: MemberAssignment) -> MemberAssignment:
    """What is in either."""
    return assignment_of(pair for part in (one, other) for pair in pairs_of(part))


def overlap(one: MemberAssignment, other: MemberAssignment) -> bool:
    """Whether a partition is in both."""
    return not set(pairs_of(one)).isdisjoint(pairs_of(other))


def contains(whole: MemberAssignment, part: MemberAssignment) -> bool:
    """Whether the second has nothing that the first has not."""
    return set(pairs_of(part)) <= set(pairs_of(whole))
