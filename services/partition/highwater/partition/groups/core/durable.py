"""The durable state of a shard: the records of its partition of a topic of groups.

Only `DurableState.replay` changes it, both live and when the shard is loaded. So a shard that
crashes after any prefix of its committed records comes back to exactly that prefix's state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.instance_counts import InstanceCounts
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.consumer import durable as consumer
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.sizes import text_size
from highwater.partition.groups.core.pending_offsets import PendingOffsets
from highwater.partition.groups.core.shares import SharedCounts
from highwater.partition.groups.core.values import GroupKey


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberImage:
    """A member of a completed generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the chosen protocol."""
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupImage:
    """A completed generation; with no `members`, an empty group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    """Wall clock; -1 when the record has no such time."""
    members: tuple[MemberImage, ...]


_MEMBER_OVERHEAD_BYTES = 64
"""Lengths and timeouts of one member, rounded up."""


def image_size(image: GroupImage) -> int:
    """Estimate the size of the image's record in bytes, never too low."""
    size = _MEMBER_OVERHEAD_BYTES
    for m in image.members:
        size += _MEMBER_OVERHEAD_BYTES + text_size(m.member_id) + text_size(m.instance_id or "")
        size += text_size(m.client_id) + text_size(m.client_host)
        size += len(m.subscription) + len(m.assignment)
    return size


class CommittedOffset(NamedTuple):
    """A committed offset with the other fields of its record."""

    offset: int
    leader_epoch: int
    """-1 when the client did not send one."""
    metadata: str
    commit_ms: int
    """Wall clock of the commit."""
    expire_ms: int = -1
    """When it expires (wall clock), from the retention time of OffsetCommit v2-4; -1: default."""


class GroupRecord(NamedTuple):
    """Sets or, with None, deletes a group's image."""

    key: GroupKey
    value: GroupImage | None


class OffsetRecord(NamedTuple):
    """Sets or, with None, deletes one committed offset."""

    key: GroupKey
    topic: str
    partition: int
    value: CommittedOffset | None


class PendingOffset(NamedTuple):
    """Sets an offset that counts once its producer's transaction is committed."""

    producer: Producer
    offset: OffsetRecord


class TransactionEnd(NamedTuple):
    """Ends a producer's transaction."""

    marker: TransactionMarker


Record = GroupRecord | OffsetRecord | PendingOffset | TransactionEnd | consumer.ConsumerRecord


class DurableState:
    """Classic groups' images, consumer groups, and committed offsets of one shard."""

    __slots__ = (
        "consumer_counts",
        "consumer_groups",
        "images",
        "offset_counts",
        "offsets",
        "pending",
    )

    def __init__(self) -> None:
        """Start empty."""
        self.images: dict[GroupKey, GroupImage] = {}
        self.consumer_groups: consumer.ConsumerGroups = {}
        self.consumer_counts = InstanceCounts()
        """Of the consumer groups; a copy (`capture`) has none."""
        self.offsets: dict[GroupKey, dict[tuple[str, int], CommittedOffset]] = {}
        self.offset_counts = SharedCounts()
        """Of `offsets`."""
        self.pending: PendingOffsets[CommittedOffset] = PendingOffsets()

    def replay(self, record: Record) -> None:
        """Apply one record; a record has a whole value, so replaying it twice changes nothing."""
        if isinstance(record, GroupRecord):
            if record.value is None:
                self.images.pop(record.key, None)
            else:
                self.images[record.key] = record.value
            return
        if isinstance(record, PendingOffset):
            key, topic, partition, value = record.offset
            assert value is not None, "offsets are not deleted in transactions"
            self.pending.set(record.producer, key, (topic, partition), value)
            return
        if isinstance(record, TransactionEnd):
            marker = record.marker
            for key, slot, value in self.pending.end(
                marker.producer_id, committed=marker.committed
            ):
                self._replay_offset(OffsetRecord(key, *slot, value))
            return
        if not isinstance(record, OffsetRecord):
            before = len(self.consumer_groups)
            consumer.replay(self.consumer_groups, record)
            self.consumer_counts.add(record.key.instance, len(self.consumer_groups) - before)
            return
        self.pending.supersede(record.key, (record.topic, record.partition))
        self._replay_offset(record)

    def consumer_group(self, key: GroupKey) -> ConsumerGroup:
        """The consumer group. The caller at once writes a record of one that was not there."""
        group = self.consumer_groups.get(key)
        if group is None:
            group = self.consumer_groups[key] = ConsumerGroup()
            self.consumer_counts.add(key.instance, 1)
        return group

    def _replay_offset(self, record: OffsetRecord) -> None:
        slot = (record.topic, record.partition)
        if record.value is not None:
            offsets = self.offsets.setdefault(record.key, {})
            if slot not in offsets:
                self.offset_counts.add(record.key.instance, 1)
            offsets[slot] = record.value
            return
        existing = self.offsets.get(record.key)
        if existing is not None and existing.pop(slot, None) is not None:
            self.offset_counts.add(record.key.instance, -1)
            if not existing:
                del self.offsets[record.key]

    @property
    def offset_count(self) -> int:
        """How many offsets are committed."""
        return self.offset_counts.total

    def capture(self) -> "DurableState":
        """Copy the state, so that later records do not change the copy; values are immutable."""
        copy = DurableState()
        copy.images = self.images.copy()
        copy.consumer_groups = {key: group.copy() for key, group in self.consumer_groups.items()}
        copy.offsets = {key: offsets.copy() for key, offsets in self.offsets.items()}
        copy.offset_counts = self.offset_counts.copy()
        copy.pending = self.pending.copy()
        return copy

    def records(self) -> Iterator[Record]:
        """The shortest list of records that leads to this state."""
        for key, image in self.images.items():
            yield GroupRecord(key, image)
        for key, group in self.consumer_groups.items():
            yield from consumer.records_of(key, group)
        for key, offsets in self.offsets.items():
            for (topic, partition), value in offsets.items():
                yield OffsetRecord(key, topic, partition, value)
        for producer, key, (topic, partition), value in self.pending.entries():
            yield PendingOffset(producer, OffsetRecord(key, topic, partition, value))
