"""The times when a partition's records were sent, and when they were acknowledged."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class AckTimeline:
    """Times of sends and acknowledgements, in seconds of one clock, for an ordered producer.

    An idempotent producer with one partition gets acknowledgements in the order of its sends, so
    both lists are sorted; `note` checks that, as the other methods use binary search.
    """

    _sent_at: list[float] = field(default_factory=list)
    _acked_at: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of acknowledged records."""
        return len(self._acked_at)

    def note(self, sent_at: float, acked_at: float) -> None:
        """Notes the acknowledgement of a record that was sent at `sent_at`."""
        if self._sent_at and (sent_at < self._sent_at[-1] or acked_at < self._acked_at[-1]):
            raise ValueError(f"acknowledged out of order: sent {sent_at}, acknowledged {acked_at}")
        self._sent_at.append(sent_at)
        self._acked_at.append(acked_at)

    def first_ack_of_later(self, moment: float) -> float | None:
        """When the first record sent after `moment` was acknowledged; None if not yet.

        An earlier record's acknowledgement does not count: it may have been sent before the moment.
        """
        index = bisect_right(self._sent_at, moment)
        return self._acked_at[index] if index < len(self._acked_at) else None

    def longest_gap(self, begin: float, end: float) -> float:
        """The longest time without an acknowledgement that overlaps begin..end, in seconds.

        A gap starts at the last acknowledgement before `begin`, and ends at the latest at `end`.
        """
        first = max(0, bisect_right(self._acked_at, begin) - 1)
        last = bisect_right(self._acked_at, end)
        points = [*self._acked_at[first:last], end]
        if points[0] > begin:
            points.insert(0, begin)
        return max((after - before for before, after in pairwise(points)), default=0.0)
