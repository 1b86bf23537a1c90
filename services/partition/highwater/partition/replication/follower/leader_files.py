"""A follower reads records from the files of a leader on the same host (short-circuit).

This runs on the loop, so only records in memory are read. If records are on disk only, or not at
their place, the follower asks for bytes: the leader reads them on its directory's thread.
"""

from collections.abc import Sequence
from typing import Final

from highwater.hop.page_cache import read_cached
from highwater.hop.segment_files import SegmentFiles, StaleReferenceError
from highwater.partition.replication.rows import SegmentPlace

BUFFER_BYTES_MAX: Final = 2 << 20
"""The buffer is kept for rows of up to this size, which nearly all are."""


class LeaderFiles:
    """The log directories of one incarnation of one leader node. On the node's loop."""

    def __init__(self, log_dirs: Sequence[str], incarnation: str) -> None:
        """Without directories nothing is readable."""
        self._files = SegmentFiles(log_dirs, incarnation)
        self._buffer = bytearray()

    @property
    def readable(self) -> bool:
        """Whether the directories are on this host and this process may read them."""
        return self._files.readable

    def read(self, place: SegmentPlace) -> memoryview | None:
        """The bytes, valid until the next call; None if the follower must ask for them."""
        try:
            found = self._files.open(place, place.position, place.length)
        except StaleReferenceError:
            return None
        view = memoryview(self._room_for(place.length))[: place.length]
        try:
            count = read_cached(found.fd, view, place.position)
        except OSError:
            # When asked for bytes, the leader finds out whether its disk has them.
            return None
        finally:
            found.release()
        return view if count == place.length else None

    def drop_deleted(self) -> None:
        """Close a few files that were deleted; call it about once a second."""
        self._files.drop_deleted()

    def close(self) -> None:
        """Close all files."""
        self._files.close()

    def _room_for(self, nbytes: int) -> bytearray:
        if nbytes > BUFFER_BYTES_MAX:
            return bytearray(nbytes)
        if nbytes > len(self._buffer):
            self._buffer = bytearray(nbytes)
        return self._buffer
