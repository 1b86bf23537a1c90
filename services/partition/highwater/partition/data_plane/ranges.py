"""A read's result that outlives the loop turn: a pinned place in a segment file."""

from highwater.partition.storage.log.log_slice import LogSlice


class SegmentRange:
    """A `FileRange` (see highwater.hop.fetch) over one slice; keeps the file open until released.

    Also says where the file lies, so that a gateway on this host can open it for itself.
    """

    __slots__ = (
        "_segment",
        "fd",
        "inode",
        "length",
        "log_dir",
        "next_offset",
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
        self.next_offset = found.next_offset
        """Of the batch behind it."""
        self.path = segment.path
        self.inode = segment.inode
        self.log_dir = log_dir

    def release(self) -> None:
        """Lets the segment's file be closed; called once."""
        self._segment.unpin()
