"""Copies a log's files to a directory in another log directory, while the log is in use.

Every method is one bounded piece of work on files, for any thread, one at a time. A copy follows
`LogView`s of the log: a segment is copied once, and again only if its file is another one since
(compaction, a repair) or the log was cut. What the log has dropped is dropped here, too. Files are
copied as they are, damage included, but the copy is only used once a start would find it whole.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.storage import checkpoint, producer_snapshots
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.move_mark import MoveMark, read_mark, write_mark
from highwater.partition.storage.errors import MoveGivenUpError
from highwater.partition.storage.filesystem import (
    FileSystem,
    sync_directory,
    sync_if_present,
    unlink_if_present,
    write_all,
)
from highwater.partition.storage.log.log_relocation import LogView, SegmentFiles
from highwater.partition.storage.names import (
    GAPS_MARKER,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from highwater.partition.storage.recovery.loader import LogLoader
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.segment import Segment, SegmentFactory

PIECE_BYTES: Final = 1 << 20
SYNC_EVERY_BYTES: Final = 16 << 20
"""What the kernel may have to write at once: a sync of a whole segment would hold up the disk."""
KEPT_FREE_BYTES: Final = 256 << 20
"""A copy leaves so much of a volume free, or a twentieth if that is less: appends of logs that are
there already fail on a full disk, and take the whole directory offline."""
_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""In the order of `SegmentFiles.paths`."""
_HANDLES: Final = 16

Identity = tuple[int, int, int] | None
"""Inode, size and time of the last change of a file; None if there is none."""


class CopyOutdatedError(Exception):
    """The log has changed since it was seen; a newer view is needed."""


@dataclass(slots=True)
class _SegmentCopy:
    """What is copied of one segment."""

    inode: int = -1
    """Of the file that the bytes are from."""
    nbytes: int = 0
    unsynced: int = 0
    complete: tuple[Identity, ...] | None = None
    """The files that were copied as a whole, of a sealed segment; it is synced then."""


def room_on(path: str) -> int:
    """How many bytes a copy may still take on the volume of `path`. Raises OSError."""
    found = os.statvfs(path)
    kept = min(KEPT_FREE_BYTES, found.f_blocks * found.f_frsize // 20)
    return found.f_bavail * found.f_frsize - kept


class LogCopy:
    """The copy of one log; see the module. All methods raise OSError."""

    def __init__(
        self,
        source: FileSystem,
        target: FileSystem,
        directory: str,
        *,
        room: Callable[[str], int] = room_on,
    ) -> None:
        """`directory` is the copy's; it is in the log directory to which the log moves."""
        self.directory = directory
        self._source = source
        self._target = target
        self._room = room
        self._segments: dict[int, _SegmentCopy] = {}
        self._snapshots: dict[str, Identity] = {}
        self._truncations = 0
        self._unchecked = 0
        """Bytes that were copied since the room was looked at."""
        self.copied_bytes = 0
        """Bytes of records in the copy now. Any thread may read it."""
        self.offset = 0
        """The log is copied up to here at least. Any thread may read it."""

    def begin(self, view: LogView) -> None:
        """Makes the directory, or empties what an earlier process has left of a copy.

        Raises MoveGivenUpError if the volume is too full.
        """
        wanted = sum(files.size for files in view.files)
        if wanted > self._room(os.path.dirname(self.directory)):
            raise MoveGivenUpError(f"there is no room for {wanted} bytes in {self.directory}")
        try:
            self._target.mkdir(self.directory)
        except FileExistsError:
            for name in self._target.listdir(self.directory):
                self._target.unlink(self._path(name))
        self._truncations = view.truncations
        self.offset = view.start_offset

    def step(self, view: LogView) -> int:
        """Copies one piece; returns how many bytes, 0 if the copy has all bytes of the view.

        Raises CopyOutdatedError, MoveGivenUpError.
        """
        nbytes, offset = 0, view.start_offset
        with _outdated_if_gone():
            self._follow(view)
            for files in view.files:
                copied = self._segments.setdefault(files.base_offset, _SegmentCopy())
                if copied.complete is None:
                    nbytes = self._advance(copied, files)
                    if nbytes:
                        break
                offset = files.next_offset
        self.offset = offset
        return nbytes

    def sync(self, view: LogView) -> None:
        """Syncs what was copied of the active segment, and copies producer snapshots, so that the
        rest takes little time. Raises CopyOutdatedError.
        """
        with _outdated_if_gone():
            copied = self._segments[view.files[-1].base_offset]
            if copied.unsynced:
                self._sync(copied, view.files[-1].base_offset)
            self._copy_snapshots(view)

    def finish(
        self,
        view: LogView,
        *,
        token: str,
        topic_id: TopicId,
        config: LogConfig,
        now_ms: int,
    ) -> None:
        """Completes the copy of a log that is held, checks it, syncs it and marks it as whole.

        Raises CopyOutdatedError; MoveGivenUpError if a start would not find the log in it.
        """
        while self.step(view):
            continue
        with _outdated_if_gone():
            self._verify(view)
            active = view.files[-1]
            self._copy_indexes(active)
            self._sync(self._segments[active.base_offset], active.base_offset)
            self._copy_snapshots(view)
            self._write_state(view, topic_id)
            self._check(view, config, now_ms)
            for name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, GAPS_MARKER):
                sync_if_present(self._target, self._path(name))
            sync_directory(self._target, self.directory)
            before = read_mark(self._source, view.directory)
        # From here on a start may take the copy for the log, if it finds no log.
        mark = MoveMark(token=token, generation=before.generation + 1)
        write_mark(self._target, self.directory, mark)
        sync_directory(self._target, os.path.dirname(self.directory))

    def segments(self, view: LogView, factory: SegmentFactory) -> list[Segment]:
        """The segments of a finished copy, by a factory for its directory; nothing is opened.

        Raises CopyOutdatedError if one has another size than the log's.
        """
        made = [factory.existing(files.base_offset) for files in view.files]
        if [segment.size for segment in made] != [files.size for files in view.files]:
            raise CopyOutdatedError
        return made

    # -- segments -------------------------------------------------------------------------------

    def _follow(self, view: LogView) -> None:
        """Drops what is not in the log any more, and after a truncation all that may not be."""
        present = {files.base_offset for files in view.files}
        for base in [base for base in self._segments if base not in present]:
            self._discard(base)
        if view.truncations != self._truncations:
            self._truncations = view.truncations
            for files in view.files:
                copied = self._segments.get(files.base_offset)
                if copied is not None and copied.complete != self._identity(files):
                    self._discard(files.base_offset)

    def _advance(self, copied: _SegmentCopy, files: SegmentFiles) -> int:
        """Copies the next piece of a segment; 0 if that was all, and then it is completed."""
        fd = self._source.open(files.paths[0], os.O_RDONLY | os.O_CLOEXEC)
        try:
            inode = self._source.fstat(fd).st_ino
            if copied.nbytes and (inode != copied.inode or files.size < copied.nbytes):
                self._discard(files.base_offset)
                raise CopyOutdatedError
            copied.inode = inode
            wanted = min(PIECE_BYTES, files.size - copied.nbytes)
            data = self._source.pread(fd, wanted, copied.nbytes) if wanted else b""
        finally:
            self._source.close(fd)
        if wanted and not data:
            raise CopyOutdatedError  # The log was truncated.
        if data or not copied.nbytes:
            self._write(copied, files.base_offset, data)
        if not data and files.sealed:
            self._complete(copied, files)
        return len(data)

    def _write(self, copied: _SegmentCopy, base: int, data: bytes) -> None:
        self._check_room(len(data))
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        path = self._path(offset_file(base, LOG_SUFFIX))
        fd = self._target.open(path, flags if copied.nbytes else flags | os.O_TRUNC, 0o644)
        try:
            write_all(self._target, fd, data, copied.nbytes)
            copied.nbytes += len(data)
            copied.unsynced += len(data)
            self.copied_bytes += len(data)
            if copied.unsynced >= SYNC_EVERY_BYTES:
                self._target.fdatasync(fd)
                # Nobody reads the copy before all of it is there.
                self._target.fadvise(fd, 0, copied.nbytes, os.POSIX_FADV_DONTNEED)
                copied.unsynced = 0
        finally:
            self._target.close(fd)

    def _check_room(self, nbytes: int) -> None:
        self._unchecked += nbytes
        if self._unchecked >= SYNC_EVERY_BYTES:
            self._unchecked = 0
            if self._room(os.path.dirname(self.directory)) <= 0:
                raise MoveGivenUpError(f"the volume of {self.directory} is nearly full")

    def _complete(self, copied: _SegmentCopy, files: SegmentFiles) -> None:
        """All bytes of a sealed segment are copied: copies its indexes, and syncs all."""
        before = self._identity(files)
        log = before[0]
        if log is None or log[1] != files.size or log[0] != copied.inode:
            self._discard(files.base_offset)
            raise CopyOutdatedError
        self._copy_indexes(files)
        path = self._path(offset_file(files.base_offset, LOG_SUFFIX))
        os.utime(path, ns=(log[2], log[2]))  # Without timestamps, a segment's age is its file's.
        self._sync(copied, files.base_offset)
        if self._identity(files) != before:
            self._discard(files.base_offset)
            raise CopyOutdatedError
        copied.complete = before

    def _copy_indexes(self, files: SegmentFiles) -> None:
        for path, suffix in zip(files.paths[1:], _SUFFIXES[1:], strict=True):
            target = self._path(offset_file(files.base_offset, suffix))
            if self._of(path) is None:
                unlink_if_present(self._target, target)
            else:
                self._copy_file(path, target)

    def _sync(self, copied: _SegmentCopy, base: int) -> None:
        for suffix in _SUFFIXES:
            sync_if_present(self._target, self._path(offset_file(base, suffix)))
        copied.unsynced = 0

    def _verify(self, view: LogView) -> None:
        """Raises CopyOutdatedError unless all sealed segments are still those that were copied."""
        for files in view.files[:-1]:
            copied = self._segments[files.base_offset]
            if copied.complete is None or copied.complete != self._identity(files):
                self._discard(files.base_offset)
                raise CopyOutdatedError

    def _discard(self, base: int) -> None:
        copied = self._segments.pop(base)
        self.copied_bytes -= copied.nbytes
        self.offset = min(self.offset, base)
        for suffix in _SUFFIXES:
            unlink_if_present(self._target, self._path(offset_file(base, suffix)))

    # -- the other files ------------------------------------------------------------------------

    def _copy_snapshots(self, view: LogView) -> None:
        """Brings the producer snapshots in line with the log's; one at its end if it is given."""
        names = {
            offset_file(offset, SNAPSHOT_SUFFIX)
            for offset in producer_snapshots.offsets(self._source.listdir(view.directory))
            if offset < view.end_offset
        }
        for name in names:
            path = os.path.join(view.directory, name)
            found = self._of(path)
            if found is not None and self._snapshots.get(name) != found:
                self._copy_file(path, self._path(name))
                sync_if_present(self._target, self._path(name))
                self._snapshots[name] = found
        if view.packed is not None:
            newest = producer_snapshots.snapshot_path(self.directory, view.end_offset)
            names.add(os.path.basename(newest))
            producer_snapshots.write(self._target, newest, view.packed)
            sync_if_present(self._target, newest)
        for offset in producer_snapshots.offsets(self._target.listdir(self.directory)):
            name = offset_file(offset, SNAPSHOT_SUFFIX)
            if name not in names:
                unlink_if_present(self._target, self._path(name))
                self._snapshots.pop(name, None)

    def _write_state(self, view: LogView, topic_id: TopicId) -> None:
        files = self._target
        checkpoint.write_epochs(
            files, self._path(LEADER_EPOCH_CHECKPOINT), view.epochs, durable=False
        )
        if topic_id != NO_TOPIC_ID:
            checkpoint.write_topic_id(files, self._path(PARTITION_METADATA), topic_id)
        if view.gaps:
            self._copy_file(os.path.join(view.directory, GAPS_MARKER), self._path(GAPS_MARKER))

    def _check(self, view: LogView, config: LogConfig, now_ms: int) -> None:
        """Loads the copy as a start would after an orderly stop. Raises MoveGivenUpError."""

        def lost() -> None:
            raise MoveGivenUpError(f"{view.directory} cannot be copied: records are missing")

        loaded = LogLoader(
            self.directory,
            config=config,
            factory=SegmentFactory(
                self.directory,
                index_bytes=view.index_bytes,
                filesystem=self._target,
                files=HandleClock(_HANDLES),
                maps=HandleClock(_HANDLES),
            ),
            now_ms=now_ms,
            clean=True,
            recovery_point=view.end_offset,
            log_start_offset=view.start_offset,
            compacted=view.first_dirty > 0,
            on_loss=lost,
        ).load()
        for segment in loaded.segments:
            segment.close()
        epochs = LeaderEpochCache(list(view.epochs))
        epochs.truncate_from_end(view.end_offset)
        epochs.truncate_from_start(view.start_offset)
        wanted = (
            [files.base_offset for files in view.files],
            (view.start_offset, view.end_offset, 0, False),
            # An empty log's epoch is in the checkpoint, and in no batch from which a start would learn it.
            [entry for entry in epochs.entries() if entry[1] < view.end_offset],
        )
        found = (
            [segment.base_offset for segment in loaded.segments],
            (
                loaded.log_start_offset,
                loaded.log_end_offset,
                loaded.truncated_bytes,
                loaded.damaged,
            ),
            [entry for entry in loaded.epochs.entries() if entry[1] < view.end_offset],
        )
        if found != wanted:
            raise MoveGivenUpError(
                f"the copy of {view.directory} differs from the log: {found}, not {wanted}"
            )

    # -- files ----------------------------------------------------------------------------------

    def _copy_file(self, source: str, target: str) -> None:
        """Copies a file as a whole, over an existing one; the copy is not synced."""
        reading = self._source.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            writing = self._target.open(target, flags, 0o644)
            try:
                position = 0
                while data := self._source.pread(reading, PIECE_BYTES, position):
                    write_all(self._target, writing, data, position)
                    position += len(data)
            finally:
                self._target.close(writing)
        finally:
            self._source.close(reading)

    def _identity(self, files: SegmentFiles) -> tuple[Identity, ...]:
        return tuple(self._of(path) for path in files.paths)

    def _of(self, path: str) -> Identity:
        try:
            found = self._source.stat(path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)


@contextmanager
def _outdated_if_gone() -> Iterator[None]:
    """A file that is missing was renamed or removed since the view: it needs another look.

    A copy's own files are never missing, unless somebody else removes them; then it is given up in
    the end.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise CopyOutdatedError(str(error)) from error
