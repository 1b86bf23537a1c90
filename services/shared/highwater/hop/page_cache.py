"""Reads of segment files that never wait for a disk."""

import errno
import os
from typing import Any, Final

_NOT_IN_MEMORY: Final = errno.EAGAIN
_CANNOT_TELL: Final = errno.EOPNOTSUPP


def read_cached(fd: int, buffer: Any, position: int) -> int:
    """Fills `buffer` from `position` on, as far as the page cache goes: bytes read, 0 if none.

    Fewer than the buffer takes also come where the file ends. A file system that cannot tell what
    is in memory (EOPNOTSUPP, as older tmpfs) is read anyhow. Raises OSError.
    """
    try:
        return os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == _NOT_IN_MEMORY:
            return 0
        if error.errno != _CANNOT_TELL:
            raise
    return os.preadv(fd, [buffer], position)
