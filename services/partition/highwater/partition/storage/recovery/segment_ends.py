"""Finds where segments end, from the headers after their last index entries, and if they join.

A roll begins the next segment where the log ends, and a cleaner keeps the last header of what it
replaces. So every segment ends exactly where the next one begins. Kafka and earlier versions may
have rolled after a gap; their logs have an empty marker (see `Gaps`).
"""

import enum
import os
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from highwater.kafka.records.batch import MAGIC
from highwater.partition.storage.errors import CorruptIndexError, CorruptLogError
from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    replace_file,
    write_all,
)
from highwater.partition.storage.names import GAPS_MARKER, TEMPORARY_SUFFIX
from highwater.partition.storage.recovery.recovery import CRC_COVERS_FROM
from highwater.partition.storage.segment.batches import (
    HEADER,
    HEADER_BYTES,
    headers,
    last_boundary,
)
from highwater.partition.storage.segment.segment import Segment

_MARKER_BYTES_MAX: Final = 64
_LEFT_BYTES_MAX: Final = 4 << 20
"""Limit of bytes read of a batch that seems cut: four times Kafka's default batch size."""
_MAGIC_AT: Final = 16
_OFFSET_MAX: Final = (1 << 63) - 1
INSIDE_ONLY: Final = b"inside\n"
"""The marker's content if segments are contiguous."""


class Gaps(enum.Enum):
    """Where compaction may have left offsets without a batch."""

    NOWHERE = enum.auto()
    """There is no marker."""
    INSIDE = enum.auto()
    """Only within segments, which are contiguous: the marker holds `INSIDE_ONLY`."""
    ANYWHERE = enum.auto()
    """Between segments, too: Kafka or an earlier version wrote the log; the marker is empty."""


def read_gaps(filesystem: FileSystem, directory: str, names: Sequence[str]) -> Gaps:
    """Read the marker in a partition's directory. Raises OSError.

    If a power cut emptied the marker of a follower, or of an earlier version, it allows too many
    gaps: a hole is then not noticed, but no intact record is cut off.
    """
    if GAPS_MARKER not in names:
        return Gaps.NOWHERE
    path = os.path.join(directory, GAPS_MARKER)
    try:
        content = read_file(filesystem, path, limit=_MARKER_BYTES_MAX)
    except ValueError:
        return Gaps.ANYWHERE
    return Gaps.INSIDE if content == INSIDE_ONLY else Gaps.ANYWHERE


def write_gaps(filesystem: FileSystem, directory: str, gaps: Gaps) -> None:
    """Create the marker, before the first gap; do not sync it. Raises OSError.

    For the loop, which does not wait for the disk. The caller syncs it soon, on another thread.
    """
    assert gaps is not Gaps.NOWHERE
    path = os.path.join(directory, GAPS_MARKER)
    fd = filesystem.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if gaps is Gaps.INSIDE:
            write_all(filesystem, fd, INSIDE_ONLY, 0)
    finally:
        filesystem.close(fd)


def write_gaps_inside(filesystem: FileSystem, directory: str) -> None:
    """Make the marker of our own compaction, with content and name on disk. Raises OSError.

    For a worker, before the first gap: no power cut leaves an empty marker, which would allow more.
    """
    path = os.path.join(directory, GAPS_MARKER)
    temporary = path + TEMPORARY_SUFFIX
    replace_file(filesystem, path, INSIDE_ONLY, temporary=temporary, durable=True)


class End(enum.Enum):
    """Why a segment's headers do not show its end."""

    CUT = enum.auto()
    """The file is shorter than its last batch says."""
    UNREADABLE = enum.auto()
    """There are enough bytes for the next batch, but they are no batch."""


def segment_end(filesystem: FileSystem, segment: Segment) -> int | End:
    """The offset after the segment's last batch, its base offset if it is empty. Raises OSError.

    Reads the last index entry and the headers after it; all headers if that entry does not match.
    """
    if not segment.size:
        return segment.base_offset
    try:
        entry = segment.index.last_entry()
    except CorruptIndexError:
        entry = None
    start = entry[1] if entry and entry[1] < segment.size else 0
    fd = filesystem.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _end_behind(filesystem, fd, start, segment)
        if found is End.UNREADABLE and start:
            found = _end_behind(filesystem, fd, 0, segment)  # Perhaps only the entry is wrong.
    finally:
        filesystem.close(fd)
    return found


def _end_behind(filesystem: FileSystem, fd: int, position: int, segment: Segment) -> int | End:
    try:
        end, following = last_boundary(filesystem.pread, fd, position=position, limit=segment.size)
    except CorruptLogError:
        return End.UNREADABLE
    if end != segment.size:
        left = filesystem.pread(fd, min(segment.size - end, _LEFT_BYTES_MAX), end)
        return End.UNREADABLE if _is_whole(left) else End.CUT
    return following if following > segment.base_offset else End.UNREADABLE


def _is_whole(left: bytes) -> bool:
    """Whether a batch that seems cut is whole: then its length field is wrong."""
    if len(left) < HEADER_BYTES:
        return False
    fields = HEADER.unpack_from(left)
    if crc32c(left[CRC_COVERS_FROM:]) == fields[4]:
        return True
    following = (fields[0] + fields[6] + 1) & _OFFSET_MAX
    found = left.find(following.to_bytes(8), HEADER_BYTES)
    return found >= 0 and left[found + _MAGIC_AT : found + _MAGIC_AT + 1] == bytes([MAGIC])


def offsets_rise(filesystem: FileSystem, segment: Segment) -> bool:
    """Whether each batch begins at or after the end of the one before. A checksum does not cover
    the base offset.

    Reads all headers; used only if a segment does not end where the next one begins. Raises
    OSError.
    """
    following = segment.base_offset
    try:
        if segment.size:
            walk = headers(filesystem.pread, segment.open(), position=0, limit=segment.size)
            for _, fields in walk:
                if fields[0] < following:
                    return False
                following = fields[0] + fields[6] + 1
    except CorruptLogError:
        return False
    return True


def shorter_than_indexed(filesystem: FileSystem, segment: Segment) -> bool:
    """Whether the index on disk points beyond the end of the file, so that batches are missing.

    This counts only if one of the index's last two entries within the file matches its batch; the
    header of the last one may be cut. Raises OSError.
    """
    try:
        last = segment.index.last_entry() if segment.size else None
        if last is None or last[1] < segment.size:
            return False
        inside = [entry for entry in segment.index.entries() if entry[1] < segment.size]
    except CorruptIndexError:
        return False
    return any(_fits(filesystem, segment, *entry) for entry in inside[-2:])


def _fits(filesystem: FileSystem, segment: Segment, last_offset: int, position: int) -> bool:
    header = filesystem.pread(segment.open(), HEADER_BYTES, position)
    if len(header) < HEADER_BYTES:
        return False
    fields = HEADER.unpack(header)
    return bool(fields[3] == MAGIC and fields[0] + fields[6] == last_offset)
