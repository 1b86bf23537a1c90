"""An assignment while it is made: who owns each partition, and how many each member has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.types import (
    MemberAssignment,
    MemberSubscription,
    SubscribedTopic,
)

NOBODY: Final = -1


class Partition(NamedTuple):
    """A partition of a topic."""

    topic_id: TopicId
    partition: int


class Owners:
    """Members have numbers, which are their places; topics are in the order of their names."""

    def __init__(
        self,
        members: Sequence[MemberSubscription],
        topics: Iterable[SubscribedTopic],
        pace: Pace,
    ) -> None:
        """`topics`: those that members read. `pace` says when whatever works on this pauses."""
        self.members: Final = members
        self.pace: Final = pace
        ordered = sorted(topics, key=lambda topic: (topic.name, topic.topic_id))
        self.topics: Final = {topic.topic_id: topic for topic in ordered}
        self.of: Final = {topic.topic_id: [NOBODY] * topic.partitions for topic in ordered}
        """{topic: the owner of each partition}."""
        self.sizes: Final = [0] * len(self.members)
        """How many partitions each member has."""

    def keep(self, previous: Mapping[str, MemberAssignment]) -> Steps[None]:
        """Members own what they owned before, as far as they still read it."""
        pace = self.pace
        for number, member in enumerate(self.members):
            for topic_id, partitions in previous.get(member.member_id, {}).items():
                owners = self.of.get(topic_id)
                if owners is None or topic_id not in member.topic_ids:
                    continue
                for partition in partitions:
                    if partition < len(owners) and owners[partition] == NOBODY:
                        owners[partition] = number
                        self.sizes[number] += 1
                    if pace.is_full():
                        yield
            if pace.is_full():
                yield

    def free(self) -> Steps[list[Partition]]:
        """The partitions that nobody owns, topic by topic."""
        found: list[Partition] = []
        for topic_id in self.of:
            found += yield from self.free_of(topic_id)
        return found

    def free_of(self, topic_id: TopicId) -> Steps[list[Partition]]:
        """Those of one topic."""
        found = []
        for partition, owner in enumerate(self.of[topic_id]):
            if owner == NOBODY:
                found.append(Partition(topic_id, partition))
            if self.pace.is_full():
                yield
        return found

    def give(self, given: Iterable[tuple[Partition, int]]) -> None:
        """Members get partitions, which lose their owners if they have any."""
        for (topic_id, partition), number in given:
            self.take(topic_id, partition)
            self.of[topic_id][partition] = number
            self.sizes[number] += 1

    def take(self, topic_id: TopicId, partition: int) -> None:
        """Nobody owns the partition any more."""
        before = self.of[topic_id][partition]
        if before != NOBODY:
            self.of[topic_id][partition] = NOBODY
            self.sizes[before] -= 1

    def is_local(self, topic_id: TopicId, partition: int, number: int) -> bool:
        """True if the partition has a replica in the member's rack."""
        racks = self.topics[topic_id].racks
        return bool(racks) and self.members[number].rack_id in racks[partition]

    def result(self) -> Steps[dict[str, MemberAssignment]]:
        """The assignment by member id."""
        found: list[dict[TopicId, list[int]]] = [{} for _ in self.members]
        for topic_id, owners in self.of.items():
            for partition, number in enumerate(owners):
                assert number != NOBODY
                found[number].setdefault(topic_id, []).append(partition)
                if self.pace.is_full():
                    yield
        assignment: dict[str, MemberAssignment] = {}
        for member, own in zip(self.members, found, strict=True):
            assignment[member.member_id] = {topic_id: tuple(some) for topic_id, some in own.items()}
            if self.pace.is_full(1 + len(own)):
                yield
        return assignment
