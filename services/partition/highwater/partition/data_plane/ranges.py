"""A read's result that stays valid after the loop turn: a pinned range of a segment file."""

from highwater.partition.storage.log.log_slice import LogSlice


class SegmentRange:
    """A `FileRange` (see highwater.hop.fetch) over one slice; keeps the file open until released.

    Also has the file's location, so that a gateway on this host can open it.
    """

    __slots__ = (
        "_segment",
        "fd",
        "inode",
        "length",
        "log_dir",
        "path",
        "position",
    )

    def __init__(self, found: LogSlice, log_dir: int) -> None:
        segment = found.segment
        segment.pin()
        self._segment = segment
        self.fd = segment.fd
        self.position = found.position
        self.length = found.length
        self.path = segment.path
        self.inode = segment.inode
        self.log_dir = log_dir

    def release(self) -> None:
        """Allows the segment's file to close; called once."""
        self._segment.unpin()
