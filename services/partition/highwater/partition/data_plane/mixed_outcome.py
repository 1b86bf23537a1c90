"""The outcome of a group if not every batch of it was appended."""

from highwater.hop.append import Failure
from highwater.kafka.records.validation import NO_TIMESTAMP


class MixedOutcome:
    """Results of a group if not every batch of it was appended."""

    __slots__ = ("base_offsets", "failures", "known_timestamps")

    def __init__(self, appended: list[int]) -> None:
        self.base_offsets = appended.copy()
        self.failures: dict[int, Failure] | None = None
        self.known_timestamps: dict[int, int] | None = None
        """By place in the group, the largest timestamp of each batch that was in the log."""

    def add(self, known: int, failure: Failure | None, timestamp: int = NO_TIMESTAMP) -> None:
        """Adds a batch that failed, or that was already in the log at offset `known`, with `timestamp`."""
        if failure is None:
            if self.known_timestamps is None:
                self.known_timestamps = {}
            self.known_timestamps[len(self.base_offsets)] = timestamp
        else:
            if self.failures is None:
                self.failures = {}
            self.failures[len(self.base_offsets)] = failure
        self.base_offsets.append(-1 if failure is not None else known)
