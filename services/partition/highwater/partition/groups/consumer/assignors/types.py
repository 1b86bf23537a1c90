"""What an assignor is given and what it returns (KIP-848; Kafka: `ConsumerGroupPartitionAssignor`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.topic_hash import topic_hash

MemberAssignment = Mapping[TopicId, tuple[int, ...]]
"""{topic: its partitions, ascending}; a topic of which the member has none is not in it."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member, and the topics that it reads."""

    member_id: str
    instance_id: str | None
    """A static member's own id (KIP-345)."""
    rack_id: str | None
    topic_ids: frozenset[TopicId]
    """Members that read the same are compared faster if they have the same object."""


@dataclass(frozen=True, slots=True)
class SubscribedTopic:
    """A topic that members read."""

    topic_id: TopicId
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...]
    """The racks of each partition's replicas, one for each that has one; empty if they are not known."""
    hash: int = field(init=False, repr=False, compare=False)
    """Of all the above. Made once: there may be thousands of partitions, and as many look-ups."""

    def __post_init__(self) -> None:
        made = topic_hash(self.topic_id, self.name, self.partitions, self.racks)
        object.__setattr__(self, "hash", made)


class Assignor(Protocol):
    """Gives each partition to one member that reads its topic, if there is any.

    The result depends on the arguments only, not on the order of members or topics. It has each
    member, and no partition of a topic that is not in `topics`. `previous` is the last assignment:
    it may have members and topics that are gone.
    """

    @property
    def name(self) -> str:
        """The name that clients ask for (`group.remote.assignor`)."""
        ...

    def assigning(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],
        pace: Pace,
    ) -> Steps[dict[str, MemberAssignment]]:
        """The assignment by member id, in as many steps as `pace` wants; it depends on no other thing.

        Nothing that it was given may change before it ends.
        """
        ...

    def assign(
        self,
        members: Sequence[MemberSubscription],
        topics: Mapping[TopicId, SubscribedTopic],
        previous: Mapping[str, MemberAssignment],
    ) -> dict[str, MemberAssignment]:
        """The same at once: a thousand members and ten thousand partitions take 10 to 50 ms."""
        ...
