"""Reads of segment files that never wait for a disk."""

import errno
import os
from typing import Any, Final

_NOT_IN_MEMORY: Final = errno.EAGAIN
_CANNOT_TELL: Final = errno.EOPNOTSUPP


def read_cached(fd: int, buffer: Any, position: int) -> int:
    """Reads from `position` on what is in the page cache; returns the bytes read, 0 if none.

    At the end of the file it reads less than the buffer holds. File systems that do not support
    such reads (EOPNOTSUPP, as older tmpfs) are read normally. Raises OSError.
    """
    try:
        return os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == _NOT_IN_MEMORY:
            return 0
        if error.errno != _CANNOT_TELL:
            raise
    return os.preadv(fd, [buffer], position)
