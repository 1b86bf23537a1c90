"""The records of consumer groups, as values; `replay` applies one to a shard's groups.

A record has a whole value, so replaying it twice changes nothing. Records of one group may come in
any order: compaction keeps only the last one of each key.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import (
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)
from highwater.partition.groups.key import GroupKey

_V = TypeVar("_V")

ConsumerGroups = dict[GroupKey, ConsumerGroup]


class GroupEpoch(NamedTuple):
    """A group's epoch, and the hash of its topics in it."""

    epoch: int
    metadata_hash: int


class GroupEpochRecord(NamedTuple):
    """Sets a group's epoch or, with None, deletes the group."""

    key: GroupKey
    value: GroupEpoch | None


class SubscriptionMetadataRecord(NamedTuple):
    """What Kafka wrote of topics before 4.1; only its presence matters here."""

    key: GroupKey
    value: bytes | None


class MemberRecord(NamedTuple):
    """Sets a member's metadata or, with None, removes the member."""

    key: GroupKey
    member_id: str
    value: MemberMetadata | None


class TargetEpoch(NamedTuple):
    """The group's epoch for which the target assignment was made, and when."""

    epoch: int
    made_ms: int
    """Since 1970; 0 if no assignor has made it (Kafka 4.3: AssignmentTimestamp, KIP-1263)."""


class TargetEpochRecord(NamedTuple):
    """Sets the epoch of the target assignment; it comes after the members' targets."""

    key: GroupKey
    value: TargetEpoch | None


class TargetRecord(NamedTuple):
    """Sets or deletes a member's target assignment."""

    key: GroupKey
    member_id: str
    value: MemberAssignment | None


class CurrentRecord(NamedTuple):
    """Sets or deletes what a member holds."""

    key: GroupKey
    member_id: str
    value: CurrentAssignment | None


class RegexRecord(NamedTuple):
    """Sets or deletes the topics of a regular expression."""

    key: GroupKey
    regex: str
    value: ResolvedRegex | None


ConsumerRecord = (
    GroupEpochRecord
    | SubscriptionMetadataRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentRecord
    | RegexRecord
)


def replay(groups: ConsumerGroups, record: ConsumerRecord) -> None:
    """Apply one record."""
    if isinstance(record, GroupEpochRecord) and record.value is None:
        groups.pop(record.key, None)
        return
    group = groups.get(record.key)
    if group is None:
        if record.value is None:
            return
        group = groups[record.key] = ConsumerGroup()
    match record:
        case GroupEpochRecord():
            assert record.value is not None
            group.epoch, group.metadata_hash = record.value
        case SubscriptionMetadataRecord():
            group.subscription_metadata = record.value
        case MemberRecord():
            group.set_metadata(record.member_id, record.value)
        case TargetEpochRecord():
            group.target_epoch, group.target_made_ms = record.value or TargetEpoch(0, 0)
        case TargetRecord():
            _set_or_delete(group.targets, record.member_id, record.value)
        case CurrentRecord():
            group.set_current(record.member_id, record.value)
        case RegexRecord():
            _set_or_delete(group.regexes, record.regex, record.value)


def _set_or_delete(mapping: dict[str, _V], key: str, value: _V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def records_of(key: GroupKey, group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """The shortest list of records that leads to this group (Kafka: `createConsumerGroupRecords`)."""
    for member in group.members.values():
        yield MemberRecord(key, member.member_id, member.metadata)
    yield GroupEpochRecord(key, GroupEpoch(group.epoch, group.metadata_hash))
    if group.subscription_metadata is not None:
        yield SubscriptionMetadataRecord(key, group.subscription_metadata)
    for regex, resolved in group.regexes.items():
        yield RegexRecord(key, regex, resolved)
    for member_id, target in group.targets.items():
        yield TargetRecord(key, member_id, target)
    yield TargetEpochRecord(key, TargetEpoch(group.target_epoch, group.target_made_ms))
    for member in group.members.values():
        yield CurrentRecord(key, member.member_id, member.current)


def tombstones_of(key: GroupKey, group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """What deletes all records of the group (Kafka: `createGroupTombstoneRecords`)."""
    for member_id in list(group.members):
        yield CurrentRecord(key, member_id, None)
    for member_id in list(group.targets):
        yield TargetRecord(key, member_id, None)
    yield TargetEpochRecord(key, None)
    for member_id in list(group.members):
        yield MemberRecord(key, member_id, None)
    for regex in list(group.regexes):
        yield RegexRecord(key, regex, None)
    if group.subscription_metadata is not None:
        yield SubscriptionMetadataRecord(key, None)
    yield GroupEpochRecord(key, None)
