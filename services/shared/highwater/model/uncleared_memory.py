"""Memory for large frames and messages, which the kernel provides page by page as bytes arrive.

`bytearray(n)` clears its memory. For an announced frame of 100 MiB, this touches 25 600 pages at
once, on the event loop, before a byte of it has arrived; for a frame of 1 MiB, it writes everything
once more than needed. C callers of CPython get a bytearray without the clearing: they pass no bytes
to `PyByteArray_FromStringAndSize`, which is part of the stable ABI. This module does the same.
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
    """A bytearray of `size` arbitrary bytes, which the caller fills before it hands them on.

    A large one is not resident yet, except for its last page. Raises MemoryError.
    """
    return _from_string_and_size(None, size)
