"""What the parts of a log that follow its records are told, so that no operation names them all.

`LogParts` lists who is told, in order. A part that holds something about the log's records implements
what concerns it and is added there. What lies in files of a segment goes with the segment
(`Segment.index_files`, `Segment.truncate_indexes`, `Segment.seal`).
"""

from typing import Protocol


class FollowsRolls(Protocol):
    """A part that has to do something when a segment is complete."""

    def rolled(self, base_offset: int, /) -> None:
        """A new segment begins at `base_offset`; the one before it is sealed. The group that made
        it necessary may not be in the log yet. Raises LogDirFailure.
        """
        ...


class FollowsStart(Protocol):
    """A part that forgets what lies before the log start offset."""

    def start_moved(self, offset: int, /) -> None:
        """Nothing before `offset` is to be read any more; files may still have it. Raises
        LogDirFailure.
        """
        ...


class FollowsEnd(Protocol):
    """A part that holds something about the log's last records, or about all of them."""

    def cut(self, end: int, /) -> None:
        """The log was cut at `end`: segments and offsets say so already. Raises OSError,
        LogDirFailure, CorruptLogError.
        """
        ...

    def emptied(self, offset: int, /) -> None:
        """The log was emptied and begins at `offset`, before or behind its former end: segments
        and offsets say so already. Raises as `cut` does.
        """
        ...
