"""What a leader on this host promises in its files, read by its follower (short-circuit).

Only what is in memory is read, since this is on the loop. The rest, and what is not where it should
be, has to come as bytes: its leader reads on a thread of the directory that it owns.
"""

from collections.abc import Sequence
from typing import Final

from highwater.hop.page_cache import read_cached
from highwater.hop.segment_files import SegmentFiles, StaleReferenceError
from highwater.partition.replication.rows import SegmentPlace

BUFFER_BYTES_MAX: Final = 2 << 20
"""A buffer is kept for rows of up to this size, which nearly all are."""


class LeaderFiles:
    """The log directories of one incarnation of one node. On the node's loop."""

    def __init__(self, log_dirs: Sequence[str], incarnation: str) -> None:
        """Without directories nothing is readable."""
        self._files = SegmentFiles(log_dirs, incarnation)
        self._buffer = bytearray()

    @property
    def readable(self) -> bool:
        """Whether they are on this host, and this process may read them."""
        return self._files.readable

    def read(self, place: SegmentPlace) -> memoryview | None:
        """The bytes there, which are valid until the next call; None if they must be asked for."""
        try:
            found = self._files.open(place, place.position, place.length)
        except StaleReferenceError:
            return None
        view = memoryview(self._room_for(place.length))[: place.length]
        try:
            count = read_cached(found.fd, view, place.position)
        except OSError:
            # Asked for bytes, the leader finds out by itself whether its disk has them.
            return None
        finally:
            found.release()
        return view if count == place.length else None

    def drop_deleted(self) -> None:
        """Lets go of a few files that were removed; to be called about once a second."""
        self._files.drop_deleted()

    def close(self) -> None:
        """Closes all files."""
        self._files.close()

    def _room_for(self, nbytes: int) -> bytearray:
        if nbytes > BUFFER_BYTES_MAX:
            return bytearray(nbytes)
        if nbytes > len(self._buffer):
            self._buffer = bytearray(nbytes)
        return self._buffer
