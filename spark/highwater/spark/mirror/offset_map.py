"""What an offsets topic says, put together; and offsets of a source as offsets of its copy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from highwater.spark.mirror.offset_records import (
    Copy,
    OffsetRecord,
    Sync,
    Withdrawn,
    slot,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """An offset of a copy.

    If it is `exact`, the record there is the one that a consumer would have read next in the source, or the
    next that was copied; otherwise it lies before that, and the consumer reads some records again.
    """

    offset: int
    is_exact: bool


@dataclass(slots=True)
class OffsetMap:
    """Copies and syncs of one source, as far as its offsets topic was read; each partition's are in order."""

    copies: dict[str, Copy] = field(default_factory=dict)
    _syncs: dict[tuple[str, int], dict[int, Sync]] = field(default_factory=dict)
    _newest: dict[tuple[str, int], Sync] = field(default_factory=dict)

    def apply(self, records: Iterable[OffsetRecord]) -> None:
        """Takes in records, in the order of the topic."""
        for record in records:
            if isinstance(record, Copy):
                self.copies[record.topic] = record
            elif isinstance(record, Withdrawn):
                self.copies.pop(record.topic, None)
            else:
                place = (record.topic, record.partition)
                self._syncs.setdefault(place, {})[slot(record.number)] = record
                self._newest[place] = record

    def newest(self, topic: str, partition: int) -> Sync | None:
        """Returns the last sync of a copy's partition."""
        return self._newest.get((topic, partition))

    def syncs(self, topic: str, partition: int) -> list[Sync]:
        """Returns the syncs of a copy's partition that are kept, oldest first."""
        found = self._syncs.get((topic, partition), {})
        return sorted(found.values(), key=lambda sync: sync.number)

    def partitions(self, topic: str) -> int:
        """Returns one more than the highest partition of a copy that has a sync."""
        return max((number + 1 for name, number in self._newest if name == topic), default=0)


def translate(syncs: Sequence[Sync], offset: int) -> Translation | None:
    """Returns where a consumer goes on in a copy that would read `offset` of the source next.

    `syncs` are those of one partition, oldest first. None if nothing of the partition, as it is now, was
    copied. The result is never behind the right offset, so that no record is left out.
    """
    if not syncs:
        return None
    newest = syncs[-1]
    # Syncs of topics that were made anew since say nothing about the present ones.
    ids = (newest.source_id, newest.copy_id)
    valid = [each for each in syncs if (each.source_id, each.copy_id) == ids]
    before = [each for each in valid if each.source_first <= offset]
    if not before:
        return Translation(offset=0, is_exact=False)
    sync = before[-1]
    if offset >= sync.source_next:
        # The end of the copy, or syncs in between that are no longer kept.
        return Translation(offset=sync.copy_next, is_exact=offset == sync.source_next)
    if offset == sync.source_first:
        return Translation(offset=sync.copy_first, is_exact=True)
    if _is_linear(sync):
        return Translation(
            offset=sync.copy_first + offset - sync.source_first,
            is_exact=True,
        )
    return Translation(offset=sync.copy_first, is_exact=False)


def _is_linear(sync: Sync) -> bool:
    """Whether every offset on both sides has a record: none was compacted away, and no marker is between."""
    return (
        sync.source_next - sync.source_first
        == sync.copy_next - sync.copy_first
        == sync.records
    )  # fmt: skip
