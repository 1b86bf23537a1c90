"""Writes a closed segment again beside itself, with a damaged range replaced (R13).

The new file is named `<base>.log.cleaned`, as cleaned segments are before they count, so a start
removes it; `cleaning.swap` puts it in the segment's place. Every method does one piece of work on
files, on any thread, and raises OSError.
"""

import contextlib
import os
import threading
from typing import Final

from highwater.partition.core.leader_epochs import NO_EPOCH, LeaderEpochCache
from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    sync_if_present,
    unlink_if_present,
    write_all,
)
from highwater.partition.storage.names import CLEANED_SUFFIX
from highwater.partition.storage.recovery.recovery import rebuild_indexes
from highwater.partition.storage.scrubbing.damaged_range import (
    DamagedRange,
    RangeCheck,
    find_range,
    to_segment_end,
)
from highwater.partition.storage.scrubbing.scrub import SegmentFile
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

PIECE_BYTES: Final = 1 << 20
TRANSACTIONS_BYTES_MAX: Final = 1 << 30
"""Of a segment's transaction index: as many bytes as a segment of markers has."""
LOCAL_BYTES_MAX: Final = 8 << 20
"""A longer range is not checked for having become readable."""


class SegmentGoneError(Exception):
    """The file is no longer the one that was to be repaired."""


class SegmentRebuild:
    """One attempt at one segment: `find`, then `restart` and `take` for each source, `copy` until
    nothing is left, `finish`; `close` in every case.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        file: SegmentFile,
        *,
        epochs: LeaderEpochCache,
        index_bytes: int,
        index_interval: int,
        gaps: bool,
    ) -> None:
        """`epochs` is a copy of the log's. The others are the log's limits for indexes, and
        whether offsets may be missing in it.
        """
        self.busy = threading.Lock()
        """Hold it while calling a method, so that no other thread closes the files."""
        self._filesystem = filesystem
        self._file = file
        self._epochs = epochs
        self._gaps = gaps
        self._factory = SegmentFactory(
            os.path.dirname(file.path),
            index_bytes=index_bytes,
            filesystem=filesystem,
            files=HandleClock(2),
            maps=HandleClock(4),
        )
        self._index_interval = index_interval
        self._fd = -1
        self._new = -1
        self._check: RangeCheck | None = None
        self._copied = 0
        """Bytes of the old file that are in the new one."""
        self.range = DamagedRange(begin=0, end=0, offset=0, end_offset=0, gaps=gaps, tail=False)

    def find(self, first: int, end: int) -> bool:
        """Finds the `range` of the records [first, end); False if they are intact now.

        Raises SegmentGoneError.
        """
        file = self._file
        try:
            self._fd = self._filesystem.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SegmentGoneError from None
        status = self._filesystem.fstat(self._fd)
        if status.st_ino != file.inode:
            raise SegmentGoneError
        self.range = find_range(
            self._filesystem,
            self._fd,
            size=file.size,
            base_offset=file.base_offset,
            next_base_offset=file.next_base_offset,
            first=first,
            end=end,
            gaps=self._gaps,
        )
        nbytes = self.range.end - self.range.begin
        if nbytes > LOCAL_BYTES_MAX:
            return True
        check = self._new_check()
        data = self._filesystem.pread(self._fd, nbytes, self.range.begin)
        return bool(check.take(data)) or not check.filled

    def widen(self) -> bool:
        """Extends the range to the segment's end; False if it ends there already."""
        if self.range.tail:
            return False
        self.range = to_segment_end(self.range, self._file.size, self._file.next_base_offset)
        return True

    def restart(self) -> None:
        """Begins the new file again, without what another source gave."""
        if self._new < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._new = self._filesystem.open(self._file.path + CLEANED_SUFFIX, flags, 0o644)
        else:
            self._filesystem.ftruncate(self._new, 0)
        self._copied = 0
        self._check = self._new_check()

    def take(self, data: bytes) -> str:
        """Checks and writes the next batches of the range; returns what is wrong with them."""
        check = self._check
        assert check is not None
        position = self.range.begin + check.nbytes
        wrong = check.take(data)
        if not wrong:
            write_all(self._filesystem, self._new, data, position)
        return wrong

    @property
    def wanted(self) -> int:
        """The offset of the next record to take."""
        assert self._check is not None
        return self._check.offset

    @property
    def filled(self) -> bool:
        """Whether the range is complete."""
        assert self._check is not None
        return self._check.filled

    def copy(self) -> int:
        """Copies the next intact piece; returns how many bytes, 0 if nothing is left."""
        found, check = self.range, self._check
        assert check is not None
        if self._copied < found.begin:
            begin = self._copied
            nbytes = min(PIECE_BYTES, found.begin - begin)
            moved = 0
        else:
            begin = max(self._copied, found.end)
            nbytes = min(PIECE_BYTES, self._file.size - begin)
            moved = found.begin + check.nbytes - found.end
        if nbytes <= 0:
            return 0
        data = self._filesystem.pread(self._fd, nbytes, begin)
        if not data:
            raise SegmentGoneError  # It was truncated meanwhile.
        write_all(self._filesystem, self._new, data, begin + moved)
        self._copied = begin + len(data)
        return len(data)

    def finish(self) -> None:
        """Builds the indexes and syncs all files.

        Raises DamagedHeaderError if the result is no segment: the copied part was damaged as well.
        """
        status = self._filesystem.fstat(self._fd)
        # Without timestamps, a segment's age is that of its file.
        os.utime(self._new, ns=(status.st_mtime_ns, status.st_mtime_ns))
        segment = self._factory.existing(self._file.base_offset, CLEANED_SUFFIX)
        try:
            rebuild_indexes(
                self._filesystem,
                segment,
                index_interval=self._index_interval,
                end_offset=self._file.next_base_offset,
            )
            segment.seal()
            self._copy_transactions(segment)
        finally:
            segment.close()
        for path in segment.paths():
            sync_if_present(self._filesystem, path)

    def _copy_transactions(self, segment: Segment) -> None:
        """The records are the same, and so are the aborted transactions. A damaged index is copied
        as it is, so that its reader finds that.
        """
        target = segment.transactions.file.path
        with contextlib.suppress(FileNotFoundError):
            data = read_file(
                self._filesystem, target.removesuffix(CLEANED_SUFFIX), limit=TRANSACTIONS_BYTES_MAX
            )
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            fd = self._filesystem.open(target, flags, 0o644)
            try:
                write_all(self._filesystem, fd, data, 0)
            finally:
                self._filesystem.close(fd)

    def close(self) -> None:
        """Closes the files."""
        for fd in (self._fd, self._new):
            if fd >= 0:
                self._filesystem.close(fd)
        self._fd = self._new = -1

    def remove(self) -> None:
        """Removes the new files, if they will not be used."""
        segment = self._factory.empty(self._file.base_offset, CLEANED_SUFFIX, now_ms=0)
        for path in segment.paths():
            unlink_if_present(self._filesystem, path)

    def _new_check(self) -> RangeCheck:
        before = self._epochs.epoch_for(self.range.offset - 1)
        return RangeCheck(self.range, self._epochs.epoch_for, max(before, NO_EPOCH))
