"""What it means for work on other threads that its log was deleted or cut meanwhile."""

import errno
from typing import Final

_GONE: Final = frozenset({errno.ENOENT, errno.EBADF})


class LogLife:
    """Whether a log was deleted or cut, for its jobs on other threads.

    A job may find its files renamed or removed at any moment, however late it looked whether the
    log is still there. So it works on and, if a file is missing, asks here afterwards. The owner
    sets `ended` before it renames anything; nobody takes it back.
    """

    __slots__ = ("ended", "truncations")

    def __init__(self) -> None:
        self.ended = False
        self.truncations = 0
        """How often the log was cut since it was opened. The owner counts before it looks for
        files that tell of what was cut off: a job that writes one later sees it here."""

    def excuses(self, error: OSError) -> bool:
        """Whether a job failed only because its log was deleted. A file that is missing from a
        living log, and whatever else the system may refuse, is the directory's failure.
        """
        return self.ended and error.errno in _GONE
