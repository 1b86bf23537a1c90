"""One consumer group (KIP-848): members, target assignment, epochs. It is what its records say.

Only `replay` changes it, both live and when the shard is loaded; decisions are in `heartbeat`,
`leaving` and their neighbours. Timers are not part of it (`timers`). Kafka: `ConsumerGroup`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.assignment import NOTHING, pairs_of
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.group_state import ConsumerGroupState
from highwater.partition.groups.consumer.member import (
    NEW_ASSIGNMENT,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)

NO_EPOCH = 0
"""The epoch of a group without a record of it: its first heartbeat bumps it."""


class ConsumerGroup:
    """See the module. Members and assignments are values; only the mappings change."""

    __slots__ = (
        "classic_count",
        "epoch",
        "members",
        "metadata_hash",
        "owners",
        "regex_readers",
        "regexes",
        "static_members",
        "subscription_metadata",
        "target_epoch",
        "target_made_ms",
        "targets",
        "topic_readers",
    )

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.metadata_hash = 0
        """Of the subscribed topics in this epoch; see `topics.metadata_hash`."""
        self.target_epoch = 0
        """The group's epoch for which the target assignment was made."""
        self.target_made_ms = 0
        """When, in ms since the epoch; 0 if that is not known, or none was made."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id (KIP-345)."""
        self.topic_readers: Counter[str] = Counter()
        """Topic -> how many members name it."""
        self.regex_readers: Counter[str] = Counter()
        """Regular expression -> how many members subscribe to it."""
        self.classic_count = 0
        """Members that speak the classic protocol."""
        self.targets: dict[str, MemberAssignment] = {}
        """Member id -> what it is to hold."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[TopicId, int], str] = {}
        """(topic, partition) -> the member that holds it or has not given it up yet."""
        self.subscription_metadata: bytes | None = None
        """A record that Kafka wrote before 4.1; it is deleted with the next epoch."""

    # -- records ------------------------------------------------------------------------------

    def set_metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        """Add or change a member, or remove it."""
        old = self.members.get(member_id)
        if old is not None:
            self._forget_instance(old)
            self._count(old.metadata, -1)
        if metadata is not None:
            self._count(metadata, 1)
            if metadata.instance_id is not None:
                self.static_members[metadata.instance_id] = member_id
            base = ConsumerMember(member_id=member_id) if old is None else old
            self.members[member_id] = replace(base, metadata=metadata)
        elif old is not None:
            self._release(old)
            del self.members[member_id]

    def set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """Change what a member holds; None if it holds nothing, because it is being removed."""
        old = self.members.get(member_id)
        if old is not None:
            self._release(old)
        elif current is None:
            return
        base = ConsumerMember(member_id=member_id) if old is None else old
        self.members[member_id] = replace(base, current=current or NEW_ASSIGNMENT)
        if current is not None:
            for assignment in (current.assigned, current.revoking):
                for pair in pairs_of(assignment):
                    self.owners[pair] = member_id

    def _count(self, metadata: MemberMetadata, change: int) -> None:
        """Groups may have thousands of members: nothing counts them anew with each that changes."""
        topics, regexes = self.topic_readers, self.regex_readers
        for name in metadata.topic_names:
            topics[name] += change
            if not topics[name]:
                del topics[name]
        if metadata.topic_regex:
            regexes[metadata.topic_regex] += change
            if not regexes[metadata.topic_regex]:
                del regexes[metadata.topic_regex]
        self.classic_count += change * (metadata.classic is not None)

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for assignment in (member.current.assigned, member.current.revoking):
            for pair in pairs_of(assignment):
                if self.owners.get(pair) == member.member_id:
                    del self.owners[pair]

    def copy(self) -> "ConsumerGroup":
        """A copy that later records do not change."""
        other = ConsumerGroup()
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.target_epoch = self.target_epoch
        other.target_made_ms = self.target_made_ms
        other.members = self.members.copy()
        other.static_members = self.static_members.copy()
        other.topic_readers = self.topic_readers.copy()
        other.regex_readers = self.regex_readers.copy()
        other.classic_count = self.classic_count
        other.targets = self.targets.copy()
        other.regexes = self.regexes.copy()
        other.owners = self.owners.copy()
        other.subscription_metadata = self.subscription_metadata
        return other

    # -- views --------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Follows from members and epochs."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.current.is_reconciled_to(self.target_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of this instance id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> MemberAssignment:
        """What the member is to hold."""
        return self.targets.get(member_id, NOTHING)

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """The topics that a member of the group with this metadata reads."""
        resolved = self.regexes.get(metadata.topic_regex)
        return metadata.topic_names if resolved is None else metadata.topic_names | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that the members read."""
        topics = set(self.topic_readers)
        for resolved in self.regexes.values():
            topics |= resolved.topics
        return frozenset(topics)

    def preferred_assignor(self) -> str | None:
        """The assignor that most members name; the first in the alphabet of several such."""
        names = (m.metadata.assignor for m in self.members.values())
        counts = Counter(name for name in names if name is not None)
        return min(counts, key=lambda name: (-counts[name], name)) if counts else None

    def classic_members(self) -> Iterable[ConsumerMember]:
        """The members that speak the classic protocol."""
        return (m for m in self.members.values() if m.metadata.classic is not None)
