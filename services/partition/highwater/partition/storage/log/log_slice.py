"""The part of a log that a read finds."""

from typing import Final

from highwater.partition.storage.segment.batches import HEADER_BYTES, Pread, only_headers
from highwater.partition.storage.segment.segment import Segment

HEADERS_MAX: Final = 64
"""Limit of batches without a record that `is_rest_without_records` checks: one small read."""


class LogSlice:
    """Whole batches in a segment file: `length` bytes at `position`, the first at `base_offset`.

    `next_offset` is where the next batch begins, or will begin. `data` has the bytes if they were
    read together with the place. A slice without them is valid until the log's owner runs again; to
    keep it longer, `segment.pin()` and later `segment.unpin()`, both on the owner's thread.
    """

    __slots__ = ("base_offset", "data", "length", "next_offset", "position", "segment")

    def __init__(
        self,
        segment: Segment,
        position: int,
        length: int,
        base_offset: int,
        next_offset: int,
        data: bytearray | None = None,
    ) -> None:
        self.segment = segment
        self.position = position
        self.length = length
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.data = data

    def is_rest_without_records(self, pread: Pread) -> bool:
        """Whether it reaches the end of its (open) segment and has only headers, no records."""
        if self.length > HEADERS_MAX * HEADER_BYTES or self.length % HEADER_BYTES:
            return False
        if self.position + self.length != self.segment.size:
            return False
        data = self.data
        return only_headers(
            pread(self.segment.fd, self.length, self.position) if data is None else data
        )
