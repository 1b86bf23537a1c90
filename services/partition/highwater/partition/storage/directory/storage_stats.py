"""Sums over a node's logs, for metrics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageStats:
    """Sums over a node's logs, for metrics."""

    logs: int
    segments: int
    size_bytes: int
    records_not_synced: int
    """Records that may not be on disk yet."""
    open_files: int
    open_maps: int
    handle_evictions: int
    waiting_jobs: int
    """Queued disk work of the directories' workers."""
    waiting_deletions: int
    unusable_logs: int
    offline_dirs: int
    stalled_dirs: int
    """Directories whose writes hang and run on their own thread."""
