"""Slices of a log that have only headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from highwater.kafka.records.batch import iter_batches
from highwater.partition.storage.cleaning.compaction import _empty
from highwater.partition.storage.log.log_slice import HEADERS_MAX, LogSlice
from highwater.partition.storage.segment.batches import HEADER_BYTES
from tests.support.log_batches import append, make_batch, open_log

HEADER = _empty(next(iter_batches(make_batch())).header())


@pytest.mark.parametrize(
    ("data", "position", "length", "expected"),
    [
        (HEADER, 0, HEADER_BYTES, True),
        (HEADER * 3, 0, 3 * HEADER_BYTES, True),
        (HEADER * 3, HEADER_BYTES, 2 * HEADER_BYTES, True),
        (HEADER * 3, 0, 2 * HEADER_BYTES, False),
        (HEADER * HEADERS_MAX, 0, HEADERS_MAX * HEADER_BYTES, True),
        (HEADER * (HEADERS_MAX + 1), 0, (HEADERS_MAX + 1) * HEADER_BYTES, False),
        (bytes(make_batch()) + HEADER, 0, len(make_batch()) + HEADER_BYTES, False),
        # One batch with a record, as long as two headers.
        (bytes(make_batch(value=b"x" * 53)), 0, 2 * HEADER_BYTES, False),
    ],
)
def test_which_slices_have_only_headers_up_to_the_segment_end(
    tmp_path: Path, data: bytes, position: int, length: int, expected: bool
) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    segment = log.extent.active
    Path(segment.file).write_bytes(data)
    segment.size = len(data)
    found = LogSlice(segment, position, length, 0, 1)
    assert found.is_rest_without_records(os.pread) == expected
