"""Records of a leader's log, for an answer: read on the loop, from the page cache."""

import os

from highwater.hop.page_cache import read_cached
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log_slice import LogSlice


def read_slice(found: LogSlice) -> bytes:
    """Read whole batches from a segment file, at once. Raises LogDirFailure."""
    segment = found.segment
    try:
        segment.pin()
        try:
            data = os.pread(segment.fd, found.length, found.position)
        finally:
            segment.unpin()
        if len(data) != found.length:
            raise OSError(f"{len(data)} of {found.length} bytes at {found.position}")
    except OSError as error:
        raise LogDirFailure(segment.file, error) from error
    return data


def read_in_memory(found: LogSlice) -> bytearray | None:
    """As `read_slice`, but None if it had to wait for the disk, or if bytes are missing."""
    segment = found.segment
    data = bytearray(found.length)
    try:
        segment.pin()
        try:
            count = read_cached(segment.fd, data, found.position)
        finally:
            segment.unpin()
    except OSError as error:
        raise LogDirFailure(segment.file, error) from error
    return data if count == found.length else None
