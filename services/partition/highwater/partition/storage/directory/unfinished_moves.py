"""Settles at a start what an earlier process has left of moves between log directories.

A log is under its name in one directory, except while a move ends: `log_move` has the order of
renames. So for each partition there may be, in any of the directories,

    orders-0                   the log
    orders-0.<token>-future    a copy, whole if its mark has the token
    orders-0.<token>-moved     the log that the copy with this token replaces

and this is what they mean:

    the log      beside it          done
    -----------  -----------------  ----------------------------------------------------------------
    once         a copy             the copy is begun again, as the move is (one; others are removed)
    once         moved              removed, if the log's mark has its token; else set aside as stray
    twice                           the one moved later counts, the other is set aside: after a power
                                    cut one rename of two was lost. Without a mark both stay, and
                                    `LogManager` decides, or refuses them
    nowhere      moved, whole copy  the copy becomes the log
    nowhere      moved              it becomes the log again
    nowhere      copies             removed: the log was deleted

If there is no log, and a directory cannot be read, which may have it, nothing is done: the
partition is offline until the directory is back.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from highwater.partition.storage import checkpoint
from highwater.partition.storage.directory.hosted_directory import HostedDirectory
from highwater.partition.storage.directory.move_mark import MoveMark, read_mark
from highwater.partition.storage.errors import CorruptCheckpointError, LogDirFailure
from highwater.partition.storage.filesystem import sync_directory
from highwater.partition.storage.names import (
    PARTITION_METADATA,
    deleted_directory,
    future_directory,
    moved_directory,
    parse_future_directory,
    parse_moved_directory,
    parse_partition_directory,
    stray_directory,
)

_TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory `name` in a log directory; `token` is empty for a log under its own name."""

    hosted: HostedDirectory
    name: str
    token: str = ""

    @property
    def path(self) -> str:
        return os.path.join(self.hosted.directory.path, self.name)

    def mark(self) -> MoveMark:
        """Raises OSError."""
        return read_mark(self.hosted.filesystem, self.path)


@dataclass(slots=True)
class _Partition:
    """What there is of one partition."""

    logs: list[_Place] = field(default_factory=list)
    copies: list[_Place] = field(default_factory=list)
    moved: list[_Place] = field(default_factory=list)


class UnfinishedMoves:
    """Used once, by one thread, before the logs are opened."""

    def __init__(self, dirs: Sequence[HostedDirectory]) -> None:
        """`dirs` are all of the node's; those with a `failure` cannot be read."""
        self._dirs = dirs
        self.begun: dict[str, tuple[int, str]] = {}
        """Moves to begin again: by partition's directory, the index of the log directory to which
        it was to move, and the token of the copy there."""
        self.found = False
        """Whether there was anything: checkpoints may then name logs that are not there."""

    def settle(self) -> None:
        """Does it. A directory that fails goes offline, by its `failure`."""
        for name, partition in sorted(self._scan().items()):
            if not partition.copies and not partition.moved and len(partition.logs) < 2:
                continue
            self.found = True
            try:
                self._settle(name, partition)
            except LogDirFailure:
                continue  # The directory has its `failure`; the others go on.

    def _scan(self) -> dict[str, _Partition]:
        found: dict[str, _Partition] = {}
        for hosted in self._dirs:
            if hosted.failure is not None:
                continue
            try:
                names = hosted.filesystem.listdir(hosted.directory.path)
            except OSError as error:
                hosted.failure = LogDirFailure(hosted.directory.path, error)
                continue
            for name in names:
                if (copy := parse_future_directory(name)) is not None:
                    place = _Place(hosted, name, copy[1])
                    found.setdefault(copy[0], _Partition()).copies.append(place)
                elif (moved := parse_moved_directory(name)) is not None:
                    place = _Place(hosted, name, moved[1])
                    found.setdefault(moved[0], _Partition()).moved.append(place)
                elif parse_partition_directory(name) is not None:
                    found.setdefault(name, _Partition()).logs.append(_Place(hosted, name))
        return found

    def _settle(self, name: str, found: _Partition) -> None:
        if len(found.logs) > 1 and not self._keep_newest(name, found):
            return
        if found.logs:
            self._beside(name, found.logs[0], found)
            return
        if any(hosted.failure is not None for hosted in self._dirs):
            return
        back = self._come_back(name, found)
        if back is not None:
            self._beside(name, back, found)
            return
        for copy in found.copies:
            self._remove(name, copy)

    def _keep_newest(self, name: str, found: _Partition) -> bool:
        """Sets all logs aside but the one that was moved last; False if none is known to be."""
        marked = sorted(
            ((self._mark(place).generation, number) for number, place in enumerate(found.logs)),
            reverse=True,
        )
        # A power cut may have emptied the file with the id; the mark was synced.
        ids = {self._topic_id(place) for place in found.logs} - {None}
        if marked[0][0] == marked[1][0] or len(ids) > 1:
            return False
        kept = found.logs[marked[0][1]]
        for place in found.logs:
            if place is not kept:
                self._set_aside(name, place)
        found.logs = [kept]
        return True

    def _beside(self, name: str, log: _Place, found: _Partition) -> None:
        """Clears up beside the one log of a partition."""
        token = self._mark(log).token
        for moved in found.moved:
            if moved.token == token:
                self._remove(name, moved)
            else:
                self._set_aside(name, moved)
        for copy in found.copies:
            if copy.hosted is log.hosted or found.moved or name in self.begun:
                self._remove(name, copy)
            else:
                self.begun[name] = copy.hosted.index, copy.token

    def _come_back(self, name: str, found: _Partition) -> _Place | None:
        """Gives the log its name again: the copy that was to replace it, or the log itself."""
        if not found.moved:
            return None
        newest = max(found.moved, key=lambda place: self._mark(place).generation)
        place = next((c for c in found.copies if self._replaces(c, newest)), newest)
        self._rename(place, name)
        try:
            sync_directory(place.hosted.filesystem, place.hosted.directory.path)
        except OSError as error:
            raise self._failed(place.hosted, error) from error
        (found.moved if place is newest else found.copies).remove(place)
        return _Place(place.hosted, name)

    def _replaces(self, copy: _Place, moved: _Place) -> bool:
        """Whether a copy is whole and was to replace this log, which has not outranked it since."""
        mark = self._mark(copy)
        same = copy.token == moved.token == mark.token
        return same and mark.generation > self._mark(moved).generation

    # -- one directory --------------------------------------------------------------------------

    def _mark(self, place: _Place) -> MoveMark:
        try:
            return place.mark()
        except OSError as error:
            raise self._failed(place.hosted, error) from error

    def _topic_id(self, place: _Place) -> bytes | None:
        path = os.path.join(place.path, PARTITION_METADATA)
        try:
            return checkpoint.read_topic_id(place.hosted.filesystem, path)
        except CorruptCheckpointError:
            return None
        except OSError as error:
            raise self._failed(place.hosted, error) from error

    def _remove(self, name: str, place: _Place) -> None:
        """Has the directory removed, after the start."""
        self._rename(place, deleted_directory(name, _token()))

    def _set_aside(self, name: str, place: _Place) -> None:
        self._rename(place, stray_directory(name, _token()))

    def _rename(self, place: _Place, name: str) -> None:
        hosted = place.hosted
        try:
            hosted.filesystem.rename(place.path, os.path.join(hosted.directory.path, name))
        except OSError as error:
            raise self._failed(hosted, error) from error

    def _failed(self, hosted: HostedDirectory, error: OSError) -> LogDirFailure:
        hosted.failure = failure = LogDirFailure(hosted.directory.path, error)
        return failure


def copy_path(directory: str, name: str, token: str) -> str | None:
    """The path of a copy in a log directory; None if its name would be too long."""
    copy = future_directory(name, token)
    return None if copy is None else os.path.join(directory, copy)


def moved_path(log_directory: str, token: str) -> str:
    """The path that a log gets beside its own when the copy with this token replaces it."""
    parent, name = os.path.split(log_directory)
    return os.path.join(parent, moved_directory(name, token))


def _token() -> str:
    return os.urandom(_TOKEN_BYTES).hex()
