"""The outcome of a group if not every batch of it was appended."""

from highwater.hop.append import Failure


class MixedOutcome:
    """Results of a group if not every batch of it was appended."""

    __slots__ = ("base_offsets", "failures")

    def __init__(self, appended: list[int]) -> None:
        self.base_offsets = appended.copy()
        self.failures: dict[int, Failure] | None = None

    def add(self, known: int, failure: Failure | None) -> None:
        """Adds a batch that failed, or that was already in the log at offset `known`."""
        if failure is not None:
            if self.failures is None:
                self.failures = {}
            self.failures[len(self.base_offsets)] = failure
        self.base_offsets.append(-1 if failure is not None else known)
