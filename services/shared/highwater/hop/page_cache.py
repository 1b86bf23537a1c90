"""Reads segment files without waiting for a disk."""

import errno
import os
from typing import Final

_NOT_IN_MEMORY: Final = errno.EAGAIN
_CANNOT_TELL: Final = errno.EOPNOTSUPP


def read_cached(fd: int, buffer: bytearray | memoryview, position: int) -> int:
    """Reads the cached bytes from `position` on; returns their number, 0 if none is cached.

    At the end of the file, it reads less than the buffer's size. File systems that do not support
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
