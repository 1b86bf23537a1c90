"""What became of a group of which not every batch was appended."""

from highwater.hop.append import Failure


class MixedOutcome:
    """Results of a group of which not every batch was appended."""

    __slots__ = ("base_offsets", "failures")

    def __init__(self, appended: list[int]) -> None:
        self.base_offsets = appended.copy()
        self.failures: dict[int, Failure] | None = None

    def add(self, known: int, failure: Failure | None) -> None:
        """A batch that failed, or that was in the log before at offset `known`."""
        if failure is not None:
            if self.failures is None:
                self.failures = {}
            self.failures[len(self.base_offsets)] = failure
        self.base_offsets.append(-1 if failure is not None else known)
