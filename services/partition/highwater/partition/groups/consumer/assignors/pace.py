"""When work in steps pauses: not by time, which assignors do not know, but by what it has done."""

from typing import Final

STEP_UNITS: Final = 1_000
"""Units of one step by default (`GroupConfig.assignment_step_units`). One unit is about what it costs
to give a partition to a member, a microsecond or two, so that a step takes some two milliseconds, and
small groups need one step only."""

UNIT_MEMBERS: Final = 5
"""Members that are sorted, or put into a table, in the time of one unit."""


class Pace:
    """Counts units since the last pause; it belongs to one run of one function."""

    __slots__ = ("_done", "_step_units")

    def __init__(self, step_units: int = STEP_UNITS) -> None:
        self._step_units = step_units
        self._done = 0

    def is_full(self, units: int = 1) -> bool:
        """Count what was just done; True if the step ends here, so that the caller has to yield."""
        self._done += units
        if self._done < self._step_units:
            return False
        self._done = 0
        return True
