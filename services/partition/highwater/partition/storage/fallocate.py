"""Linux's fallocate(2), which the `os` module lacks."""

import ctypes
import errno
import os
from typing import Final

FALLOC_FL_KEEP_SIZE: Final = 1
"""The file's size stays as it is."""

_libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd: int, mode: int, offset: int, length: int) -> None:
    """Reserves disk space as the manual page says. Raises OSError."""
    function = getattr(_libc, "fallocate", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = function(
        ctypes.c_int(fd), ctypes.c_int(mode), ctypes.c_int64(offset), ctypes.c_int64(length)
    )
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
