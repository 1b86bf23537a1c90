"""Memory for large frames: the kernel gives it page by page, as bytes arrive.

`bytearray(n)` clears what it allocates. For an announced frame of 100 MiB this touches 25 600 pages
at once, on the event loop, before a byte of it has come, and for one of 1 MiB it writes everything
once more than needed. C callers of CPython get a bytearray without the clearing, by passing no
bytes to `PyByteArray_FromStringAndSize`, which is part of the stable ABI; so we call as they do.
"""

import ctypes
from collections.abc import Callable
from typing import cast

_from_string_and_size = cast(
    "Callable[[None, int], bytearray]",
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
        ("PyByteArray_FromStringAndSize", ctypes.pythonapi)
    ),
)


def uncleared(size: int) -> bytearray:
    """A bytearray of so many bytes of any content, which the caller fills before others see it.

    Large ones are not resident yet, but for their last page. Raises MemoryError.
    """
    return _from_string_and_size(None, size)
