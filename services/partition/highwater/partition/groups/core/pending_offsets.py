"""Offsets that were committed in transactions which are still open (KIP-98, KIP-447).

Nobody reads them before the transaction's marker: a commit makes them committed offsets, an abort
drops them. Kafka: `pendingTransactionalOffsets` and `openTransactions` of OffsetMetadataManager.java.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Generic, TypeVar

from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.core.shares import SharedCounts
from highwater.partition.groups.core.values import GroupKey

Slot = tuple[str, int]
"""Topic and partition."""

OffsetT = TypeVar("OffsetT")
"""What is committed; immutable."""


class PendingOffsets(Generic[OffsetT]):
    """The pending offsets of one shard, by producer and by group; only `DurableState` changes them.

    An offset that is committed or deleted outside of the transaction later is the newer one, so it
    takes the place of a pending one (`supersede`), and so does that of a transaction which set it
    later and was committed first. Kafka compares their offsets in the log at the commit, which comes
    to the same; but there the slot stays unstable until the marker.
    """

    __slots__ = ("_by_producer", "_epochs", "_open", "_order", "counts")

    def __init__(self) -> None:
        """Start empty."""
        self._by_producer: dict[int, dict[tuple[GroupKey, Slot], tuple[int, OffsetT]]] = {}
        """With a number that grows with each offset; never an empty dictionary."""
        self._epochs: dict[int, int] = {}
        """The epoch of each of these producers."""
        self._open: dict[GroupKey, dict[Slot, int]] = {}
        """How many transactions have a pending offset, by group and slot; never 0."""
        self._order = 0
        self.counts = SharedCounts()
        """Of the offsets, as often as transactions have set them."""

    def __len__(self) -> int:
        return self.counts.total

    def __contains__(self, key: GroupKey) -> bool:
        """Whether a group has a pending offset."""
        return key in self._open

    def groups(self) -> Iterator[GroupKey]:
        """The groups that have pending offsets."""
        return iter(self._open)

    def groups_of(self, producer_id: int) -> set[GroupKey]:
        """The groups for which the producer has committed offsets in its transaction."""
        return {key for key, _ in self._by_producer.get(producer_id, ())}

    def slots(self, key: GroupKey) -> list[Slot]:
        """Where a group has pending offsets."""
        return list(self._open.get(key, ()))

    def is_unstable(self, key: GroupKey, slot: Slot) -> bool:
        """Whether a transaction may still change the offset of this slot."""
        return slot in self._open.get(key, ())

    def is_set(self, producer_id: int, key: GroupKey, slot: Slot) -> bool:
        """Whether the producer has committed an offset of this slot in its transaction."""
        return (key, slot) in self._by_producer.get(producer_id, ())

    def set(self, producer: Producer, key: GroupKey, slot: Slot, value: OffsetT) -> None:
        """The producer has committed an offset in its transaction."""
        offsets = self._by_producer.setdefault(producer.producer_id, {})
        self._epochs[producer.producer_id] = producer.producer_epoch
        if (key, slot) not in offsets:
            slots = self._open.setdefault(key, {})
            slots[slot] = slots.get(slot, 0) + 1
            self.counts.add(key.instance, 1)
        self._order += 1
        offsets[key, slot] = (self._order, value)

    def supersede(self, key: GroupKey, slot: Slot) -> None:
        """An offset outside of transactions is newer than all pending ones of its slot."""
        self._drop(key, slot, self._order)

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[GroupKey, Slot, OffsetT]]:
        """The transaction has ended: take out its offsets; if it is committed they count."""
        offsets = self._by_producer.pop(producer_id, {})
        self._epochs.pop(producer_id, None)
        for key, slot in offsets:
            self._close(key, slot)
        if not committed:
            return []
        for (key, slot), (order, _) in offsets.items():
            self._drop(key, slot, order)
        return [(key, slot, value) for (key, slot), (_, value) in offsets.items()]

    def _drop(self, key: GroupKey, slot: Slot, newest: int) -> None:
        """Drop the pending offsets of a slot up to the one with this number."""
        if slot not in self._open.get(key, ()):
            return
        for producer_id, offsets in list(self._by_producer.items()):
            found = offsets.get((key, slot))
            if found is not None and found[0] <= newest:
                del offsets[key, slot]
                self._close(key, slot)
                self._forget_if_empty(producer_id)

    def copy(self) -> "PendingOffsets[OffsetT]":
        """A copy that later changes do not change; values are immutable."""
        copy: PendingOffsets[OffsetT] = PendingOffsets()
        copy._by_producer = {one: offsets.copy() for one, offsets in self._by_producer.items()}
        copy._epochs = self._epochs.copy()
        copy._order = self._order
        copy.counts = self.counts.copy()
        copy._open = {key: slots.copy() for key, slots in self._open.items()}
        return copy

    def entries(self) -> Iterator[tuple[Producer, GroupKey, Slot, OffsetT]]:
        """All pending offsets, with who has committed them, in the order of their commits."""
        found = [
            (order, producer_id, key, slot, value)
            for producer_id, offsets in self._by_producer.items()
            for (key, slot), (order, value) in offsets.items()
        ]
        for _, producer_id, key, slot, value in sorted(found, key=itemgetter(0)):
            yield Producer(producer_id, self._epochs[producer_id]), key, slot, value

    def _close(self, key: GroupKey, slot: Slot) -> None:
        self.counts.add(key.instance, -1)
        slots = self._open[key]
        slots[slot] -= 1
        if not slots[slot]:
            del slots[slot]
        if not slots:
            del self._open[key]

    def _forget_if_empty(self, producer_id: int) -> None:
        if not self._by_producer[producer_id]:
            del self._by_producer[producer_id]
            del self._epochs[producer_id]
