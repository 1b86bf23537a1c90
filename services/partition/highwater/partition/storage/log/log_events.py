"""Events of a log for the parts that depend on its records, so that no operation names the parts.

`LogParts` lists the parts of each event, in order. A part that keeps something about the log's
records implements the protocols that concern it and is added there. Files that belong to a segment
are changed with the segment (`Segment.index_files`, `Segment.truncate_indexes`, `Segment.seal`).
"""

from typing import Protocol


class FollowsRolls(Protocol):
    """A part that does something when a segment is complete."""

    def rolled(self, base_offset: int, /) -> None:
        """A new segment begins at `base_offset`; the one before it is sealed. The group that caused
        the roll may not be in the log yet. Raises LogDirFailure.
        """
        ...


class FollowsStart(Protocol):
    """A part that drops what it has of records before the log start offset."""

    def start_moved(self, offset: int, /) -> None:
        """`offset` is the new log start offset; files may still have records before it. Raises
        LogDirFailure.
        """
        ...


class FollowsPlace(Protocol):
    """A part that keeps something of the log's place (`LogPlace`): a path, or a directory's
    environment.
    """

    def relocated(self) -> None:
        """The log's files are in another log directory now; records and offsets are the same."""
        ...


class FollowsEnd(Protocol):
    """A part that keeps something about the log's last records, or about all of them."""

    def cut(self, end: int, /) -> None:
        """The log was truncated to `end`; segments and offsets are set accordingly. Raises OSError,
        LogDirFailure, CorruptLogError.
        """
        ...

    def emptied(self, offset: int, /) -> None:
        """The log was emptied and begins at `offset`, before or behind its former end; segments and
        offsets are set accordingly. Raises as `cut` does.
        """
        ...
