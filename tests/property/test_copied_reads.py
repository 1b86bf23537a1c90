"""Reads that come with their bytes find what reads of places find, in any log."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.records.batch import read_header
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log_slice import LogSlice
from tests.support.log_batches import append, forget_positions, make_batch, open_log, slice_bytes

GROUPS = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 900)), min_size=1, max_size=6),
    min_size=1,
    max_size=12,
)
READS = st.lists(
    st.fixed_dictionaries(
        {
            "offset": st.integers(0, 1 << 16),
            "end": st.integers(0, 1 << 16),
            "max_bytes": st.integers(0, 5000),
            "copied_bytes_max": st.sampled_from([0, 500, 2000, 32 << 10]),
            "min_one_batch": st.booleans(),
            "copy_first": st.booleans(),
            "forget": st.booleans(),
        }
    ),
    min_size=1,
    max_size=20,
)


def place(found: LogSlice | None) -> tuple[object, ...] | None:
    if found is None:
        return None
    return found.segment, found.position, found.length, found.base_offset, found.next_offset


@settings(max_examples=60, deadline=None)
@given(
    groups=GROUPS,
    reads=READS,
    segment_bytes=st.sampled_from([1500, 6000, 1 << 20]),
    index_interval_bytes=st.sampled_from([1, 700, 4096]),
)
def test_a_copy_is_what_a_place_holds(
    groups: list[list[tuple[int, int]]],
    reads: list[dict[str, int]],
    segment_bytes: int,
    index_interval_bytes: int,
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    with tempfile.TemporaryDirectory() as directory:
        log = open_log(Path(directory) / "topic-0", config)
        for group in groups:
            batches = [
                make_batch(timestamps=(1,) * count, value=b"x" * length) for count, length in group
            ]
            append(log, *batches, epoch=0)
        for asked in reads:
            offset = asked["offset"] % log.log_end_offset
            end_offset = _boundary(log, asked["end"] % (log.log_end_offset + 1))
            found = {}
            for copied_bytes_max in sorted({0, asked["copied_bytes_max"]})[
                :: -1 if asked["copy_first"] else 1
            ]:
                if asked["forget"]:
                    forget_positions(log)
                found[copied_bytes_max] = log.reader.read(
                    offset,
                    asked["max_bytes"],
                    end_offset=end_offset,
                    min_one_batch=bool(asked["min_one_batch"]),
                    copied_bytes_max=copied_bytes_max,
                )
            copied = found[asked["copied_bytes_max"]]
            assert place(copied) == place(found[0])
            if copied is None:
                continue
            data = slice_bytes(copied)
            assert len(data) == copied.length > 0
            assert found[0] is not None
            assert found[0].data is None or not asked["copied_bytes_max"]
            if copied.data is not None:
                assert copied.data == data
                assert copied.length <= min(asked["max_bytes"], asked["copied_bytes_max"])
            elif copied.length <= asked["copied_bytes_max"]:
                cut_before_it_is_known = asked["max_bytes"] > asked["copied_bytes_max"]
                assert copied.length > asked["max_bytes"] or cut_before_it_is_known
        log.close(clean=False)


def _boundary(log: object, offset: int) -> int:
    """The end of the batch before which `offset` lies: high watermarks are ends of batches."""
    ends = [0]
    for segment in log.extent.all:  # type: ignore[attr-defined]
        data = Path(segment.file).read_bytes()[: segment.size]
        at = 0
        while at < len(data):
            header = read_header(data, at)
            ends.append(header.base_offset + header.last_offset_delta + 1)
            at += header.batch_length + 12
    return min(end for end in ends if end >= offset)
