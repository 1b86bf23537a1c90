"""What the handlers of a shard's consumer groups share."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.types import Assignor
from highwater.partition.groups.consumer.durable import (
    ConsumerGroups,
    ConsumerRecord,
    GroupEpoch,
    GroupEpochRecord,
    MemberRecord,
    RegexRecord,
    SubscriptionMetadataRecord,
)
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.group_configs import ConfigOf
from highwater.partition.groups.consumer.sizes import member_memory, regex_memory
from highwater.partition.groups.consumer.topics import Topics, metadata_hash, subscribed
from highwater.partition.groups.consumer_core.askers import Askers
from highwater.partition.groups.consumer_core.timers import MemberTimers
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.values import GroupKey

EPOCH_MAX = 2**31 - 1


class Lookup(Protocol):
    """The look-up of one group's regular expressions; see `refresh`."""

    again: bool
    has_begun: bool
    revision: int

    def step(self) -> dict[str, frozenset[str]] | None:
        """Do some of it; the result if that was the last step."""
        ...


class Computation(Protocol):
    """The work on one group's target assignment; see `targets`."""

    epoch: int
    group: ConsumerGroup

    def step(self, now: Moment) -> bool:
        """Do some of it; True if that was the last step."""
        ...


class Failure(NamedTuple):
    """A target assignment that could not be stored. It is not tried again in the same epoch."""

    group: ConsumerGroup
    """Whose it is; another group may have got the same id since."""
    epoch: int
    message: str


class Refusal(Exception):
    """The request is refused; nothing has changed yet. Ends at the shard's facade."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ConsumerState:
    """The consumer groups of one shard, beside its classic ones; owned by the shard."""

    __slots__ = (
        "askers",
        "assignors",
        "computation_timer",
        "computations",
        "config_of",
        "failures",
        "lookup_timer",
        "lookups",
        "refresh_timer",
        "shard",
        "timers",
        "topics",
    )

    def __init__(
        self,
        shard: ShardState,
        topics: Topics,
        assignors: Mapping[str, Assignor],
        config_of: ConfigOf,
    ) -> None:
        """`assignors` are those that groups may use; the first is the default."""
        self.shard = shard
        self.topics = topics
        self.assignors = assignors
        self.config_of = config_of
        """What may differ from group to group."""
        self.timers = MemberTimers(shard.timers)
        self.computations: dict[GroupKey, Computation] = {}
        """Of groups whose target assignment is being made, in the order of their next steps."""
        self.computation_timer = shard.new_timer(lambda _: None)
        """The next step of the first computation."""
        self.failures: dict[GroupKey, Failure] = {}
        """By group; of one that is gone until another one fails."""
        self.lookups: dict[GroupKey, Lookup] = {}
        """Of groups whose regular expressions are being looked up, or wait for that, in their order."""
        self.askers = Askers()
        """Of the regular expressions that groups subscribe to."""
        self.lookup_timer = shard.new_timer(lambda _: None)
        """The next step of the first look-up."""
        self.refresh_timer = shard.new_timer(lambda _: None)
        """Compares groups with the topics, after these have changed."""

    @property
    def config(self) -> GroupConfig:
        """Limits and delays of all groups."""
        return self.shard.config

    @property
    def groups(self) -> ConsumerGroups:
        """The groups; only records change them."""
        return self.shard.durable.consumer_groups

    def apply(self, record: ConsumerRecord) -> None:
        """Replay a record now and queue it for the append."""
        if isinstance(record, MemberRecord):
            before, after = self.memory_of(record.key, record.member_id), 0
            if record.value is not None:
                after = member_memory(record.value)
            # A member's memory is never 0.
            self.shard.count_members(record.key, (after > 0) - (before > 0), after - before)
        elif isinstance(record, RegexRecord):
            group = self.groups.get(record.key)
            old = None if group is None else group.regexes.get(record.regex)
            for resolved, change in ((old, -1), (record.value, 1)):
                if resolved is not None:
                    nbytes = change * regex_memory(resolved.topics)
                    self.shard.count_members(record.key, 0, nbytes)
        self.shard.apply(record)

    def memory_of(self, key: GroupKey, member_id: str) -> int:
        """About the memory of the member; 0 if there is none."""
        group = self.groups.get(key)
        member = None if group is None else group.members.get(member_id)
        return 0 if member is None else member_memory(member.metadata)

    def count_loaded(self) -> None:
        """Count members, and their memory, that were loaded."""
        for key, group in self.groups.items():
            nbytes = sum(regex_memory(resolved.topics) for resolved in group.regexes.values())
            nbytes += sum(member_memory(member.metadata) for member in group.members.values())
            self.shard.count_members(key, len(group.members), nbytes)

    def hash_of(self, key: GroupKey, group: ConsumerGroup) -> int:
        """The hash of the topics that the group reads, as they are now."""
        names = group.subscribed_topics()
        return metadata_hash(subscribed(self.topics, key.instance, names).values())

    def bump_epoch(self, key: GroupKey, group: ConsumerGroup) -> None:
        """Begin the group's next epoch; its target assignment follows with the next heartbeat."""
        assert group.epoch < EPOCH_MAX
        if group.subscription_metadata is not None:
            self.apply(SubscriptionMetadataRecord(key, None))
        value = GroupEpoch(group.epoch + 1, self.hash_of(key, group))
        self.apply(GroupEpochRecord(key, value))
