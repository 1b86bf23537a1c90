"""Sizes of a log's files while its node is at work."""

from __future__ import annotations

import contextlib
from pathlib import Path


def segment_bytes(directory: Path) -> int:
    """Of all segments of a log; those that the node deletes meanwhile do not count."""
    total = 0
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
