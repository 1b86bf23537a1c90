"""Memory for large messages, which the kernel provides page by page as bytes arrive.

`bytearray(n)` clears its memory: all of it would be written once more than needed, and for an
announced message of 100 MiB the pages would be there before a byte of it. C callers of CPython get
a bytearray without the clearing by passing no bytes to `PyByteArray_FromStringAndSize`, which is
part of the stable ABI.
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
    """A bytearray of `size` arbitrary bytes, all of which the caller fills. Raises MemoryError."""
    return _from_string_and_size(None, size)


class AssemblyBudget:
    """Memory of the messages that one connection's streams are receiving at a time, in bytes.

    A message counts with all of its length from its prefix on. Flow control cannot bound this: a
    message may be longer than a window, so its bytes are given back as they arrive.
    """

    __slots__ = ("_left",)

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes

    def take(self, nbytes: int) -> bool:
        """Takes memory for a message; False if too much is taken."""
        if nbytes > self._left:
            return False
        self._left -= nbytes
        return True

    def give(self, nbytes: int) -> None:
        """Gives it back: the message is complete, or dropped."""
        self._left += nbytes
