"""Tells glibc's allocator to keep freed large blocks instead of giving them back each time.

By default every buffer above 128 KiB is a fresh mapping: the kernel clears its pages on first
touch and takes them back on free, which costs more than receiving a 1 MiB batch into it. With
these settings such buffers come from the heap, and freed memory up to the trim threshold stays.
The services' memory budgets limit the total.
"""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
MMAP_THRESHOLD_BYTES: Final = 32 << 20
"""glibc's upper limit for it on 64-bit machines."""
TRIM_THRESHOLD_BYTES: Final = 64 << 20


def keep_freed_memory() -> bool:
    """Sets the thresholds for this process; False where the C library has no mallopt (musl)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        and mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    )
