"""The list of a log's segments, and the offsets between which it holds records.

Source: Kafka's `LogSegments`, and the log end offset of `LocalLog`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from highwater.partition.storage.segment.segment import Segment


class LogSegments:
    """Segments by base offset. There is always at least one, except while a log is being emptied.

    Callers only read its attributes. Exceptions are `end_offset`, `start_offset` and `gaps`: the
    parts that move them (appends, truncation, deletion, compaction) also set them.
    """

    __slots__ = ("_bases", "_segments", "active", "end_offset", "gaps", "positions", "sealed_bytes",
                 "start_offset")  # fmt: skip

    def __init__(
        self, segments: list[Segment], *, start_offset: int, end_offset: int, gaps: bool = False
    ) -> None:
        """Take over `segments`, in order of base offset; the last one is the active segment."""
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        """The segment that gets appends."""
        self.sealed_bytes = 0
        """Bytes in all segments except the active one."""
        self.start_offset = start_offset
        """The log start offset; it may lie inside the first segment."""
        self.end_offset = end_offset
        """The log end offset."""
        self.gaps = gaps
        """Whether offsets may be missing, according to the marker in the directory."""
        self.positions: dict[int, int] = {}
        """Base offset -> position of some batches, where readers stopped. A position belongs to the
        segment that has the offset; a segment's own base offset is always at position 0."""
        self.count_sealed()

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def all(self) -> Sequence[Segment]:
        """All segments, oldest first; callers must not change the list."""
        return self._segments

    @property
    def first_base(self) -> int:
        """The base offset of the first segment."""
        return self._bases[0]

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments' `.log` files."""
        return self.sealed_bytes + self.active.size

    def number_of(self, offset: int) -> int:
        """The index of the segment that has `offset`; -1 if the log begins behind it."""
        return bisect_right(self._bases, offset) - 1

    def holding(self, offset: int) -> Segment:
        """The segment that has `offset`, which must not be before the first segment."""
        return self._segments[bisect_right(self._bases, offset) - 1]

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """The segment that has `offset` and those after it."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def sealed(self) -> Iterator[tuple[Segment, int]]:
        """The segments without the active one, each with the offset that follows it."""
        return zip(self._segments, self._bases[1:], strict=False)

    def end_of(self, segment: Segment) -> int:
        """The offset that follows the segment."""
        if segment is self.active:
            return self.end_offset
        following = bisect_right(self._bases, segment.base_offset)
        # It may be the last one while the log is being truncated.
        return self._bases[following] if following < len(self._bases) else self.end_offset

    def add(self, segment: Segment) -> None:
        """Append a segment; it becomes the active one with `activate_last`."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: Segment) -> None:
        """Remove a segment; then `count_sealed`, or `activate_last` if it was the active one."""
        number = self._bases.index(segment.base_offset)
        del self._bases[number], self._segments[number]

    def activate_last(self) -> None:
        """Make the last segment the active one, after a roll or a truncation."""
        self.active = self._segments[-1]
        self.count_sealed()

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent sealed segments by `new`."""
        first = self._segments.index(old[0])
        stop = first + len(old)
        assert self._segments[first:stop] == list(old)
        assert stop < len(self._segments), "the active segment is never replaced"
        self._segments[first:stop] = [new]
        self._bases[first:stop] = [new.base_offset]
        self.count_sealed()
        self.positions.clear()

    def move(self, new: Sequence[Segment]) -> list[Segment]:
        """Take `new` in place of all segments, of which they are copies; return the old ones."""
        old = list(self._segments)
        assert [(s.base_offset, s.size) for s in old] == [(s.base_offset, s.size) for s in new]
        self._segments[:] = new
        self.active = new[-1]
        return old

    def count_sealed(self) -> None:
        """Count `sealed_bytes` anew, after segments were removed."""
        self.sealed_bytes = sum(segment.size for segment in self._segments[:-1])
