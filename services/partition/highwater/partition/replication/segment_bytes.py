"""Records of a leader's log, for an answer: read on the loop, as a rule from the page cache."""

import os

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log import LogSlice


def read_slice(found: LogSlice) -> bytes:
    """The bytes of whole batches in a segment file. Raises LogDirFailure."""
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
