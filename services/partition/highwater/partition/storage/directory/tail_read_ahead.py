"""Has the kernel read the tails of the logs that are opened next, while one is being opened.

After a kill the tail of each log is read, up to some 1 MiB. Where little of it is left in memory the
disk decides how long a node with many logs takes to start, and it is faster when it has several
reads to do.
"""

import os
from collections.abc import Sequence
from typing import Final

from highwater.partition.storage.filesystem import FileSystem

LOGS_AHEAD: Final = 16
"""How many logs are read ahead; with TAIL_BYTES, 32 MiB at most."""

TAIL_BYTES: Final = 2 << 20
"""As much as a start usually looks at: the index is at most 1 MiB behind, and then there is the last
batch."""


class TailReadAhead:
    """Used by one thread while it opens the logs of one directory, in order."""

    def __init__(self, filesystem: FileSystem, directories: Sequence[str]) -> None:
        """`directories` are those of the logs."""
        self._filesystem = filesystem
        self._directories = directories
        self._asked = 0

    def opening(self, number: int) -> None:
        """The log with this number is opened next. Raises OSError."""
        ahead = min(number + LOGS_AHEAD, len(self._directories) - 1)
        while self._asked <= ahead:
            self._ask(self._directories[self._asked])
            self._asked += 1

    def _ask(self, directory: str) -> None:
        files = [name for name in self._filesystem.listdir(directory) if name.endswith(".log")]
        if not files:
            return
        path = os.path.join(directory, max(files))
        fd = self._filesystem.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            start = max(0, self._filesystem.fstat(fd).st_size - TAIL_BYTES)
            self._filesystem.fadvise(fd, start, TAIL_BYTES, os.POSIX_FADV_WILLNEED)
        finally:
            self._filesystem.close(fd)
