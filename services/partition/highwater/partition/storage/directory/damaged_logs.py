"""Damaged logs that were set aside, until another copy of their partition is in sync (R13).

Each stays in its log directory as `<partition>.<token>-damaged`, also after a restart; nothing
reads it. Used on the thread that owns the logs.
"""

import os

from highwater.partition.storage.directory.hosted_directory import HostedDirectory
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import parse_damaged_directory


class DamagedLogs:
    """Damaged logs by the name of their partition's directory; true if there are any."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._found: dict[str, list[tuple[HostedDirectory, str]]] = {}

    def __len__(self) -> int:
        return sum(len(places) for places in self._found.values())

    def find(self) -> None:
        """Finds those that an earlier process has left; call it after `LogManager.open`.

        A directory that cannot be listed is offline.
        """
        for hosted in self._manager.online():
            path = hosted.directory.path
            try:
                names = hosted.filesystem.listdir(path)
            except OSError as error:
                hosted.failure = LogDirFailure(path, error)
                continue
            for name in names:
                partition = parse_damaged_directory(name)
                if partition is not None:
                    self._add(partition, hosted, os.path.join(path, name))

    def set_aside(self, log: PartitionLog) -> None:
        """Renames the directory of a log that is in use, and keeps it."""
        name = os.path.basename(log.directory)
        hosted = self._manager.dirs[self._manager.dir_index(log)]
        self._manager.rename_away(log, log.closing.set_damaged_aside)
        self._add(name, hosted, log.directory)

    def _add(self, name: str, hosted: HostedDirectory, directory: str) -> None:
        self._found.setdefault(name, []).append((hosted, directory))

    def remove(self, name: str) -> list[str]:
        """Removes, off the loop, all damaged logs of a partition; returns their directories."""
        places = self._found.pop(name, [])
        for hosted, directory in places:
            hosted.delete_later([directory], 0)
        return [directory for _, directory in places]
