"""How much of this process's memory is resident."""

from __future__ import annotations

from pathlib import Path

import pytest

_STATM = Path("/proc/self/statm")
LINUX_ONLY = pytest.mark.skipif(
    not _STATM.exists(), reason="resident memory is read from Linux's /proc"
)


def resident() -> int:
    """Resident bytes of this process, by pages of 4 KiB."""
    return int(_STATM.read_text().split()[1]) * 4096
