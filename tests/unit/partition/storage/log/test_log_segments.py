"""The list of segments: look-ups and changes."""

from dataclasses import dataclass
from typing import cast

import pytest

from highwater.partition.storage.log.log_segments import LogSegments
from highwater.partition.storage.segment.segment import Segment


@dataclass
class Piece:
    """The fields of a segment that the list uses."""

    base_offset: int
    size: int = 10


def pieces(*bases: int) -> list[Segment]:
    return cast("list[Segment]", [Piece(base) for base in bases])


@pytest.fixture
def segments() -> LogSegments:
    return LogSegments(pieces(0, 10, 20, 30), start_offset=5, end_offset=37)


def test_an_offset_is_found_in_its_segment(segments: LogSegments) -> None:
    assert [segments.holding(offset).base_offset for offset in (0, 9, 10, 29, 30, 99)] == [
        0, 0, 10, 20, 30, 30,
    ]  # fmt: skip
    assert [segments.number_of(offset) for offset in (-1, 0, 10, 36)] == [-1, 0, 1, 3]
    assert [segment.base_offset for segment in segments.from_offset(15)] == [10, 20, 30]
    assert len(segments.from_offset(0)) == len(segments) == 4


def test_a_segment_ends_where_the_next_one_begins(segments: LogSegments) -> None:
    assert [segments.end_of(segment) for segment in segments.all] == [10, 20, 30, 37]
    assert [following for _, following in segments.sealed()] == [10, 20, 30]


def test_bytes_of_sealed_segments_and_of_the_active_one(segments: LogSegments) -> None:
    assert (segments.sealed_bytes, segments.size_bytes) == (30, 40)
    segments.active.size = 15
    assert segments.size_bytes == 45
    segments.add(*pieces(37))
    segments.activate_last()
    assert (segments.active.base_offset, segments.sealed_bytes) == (37, 45)
    segments.remove(segments.all[0])
    segments.count_sealed()
    assert (segments.first_base, segments.sealed_bytes) == (10, 35)


def test_one_segment_replaces_adjacent_ones(segments: LogSegments) -> None:
    segments.positions[12] = 100
    (new,) = pieces(10)
    segments.replace(segments.all[1:3], new)
    assert [segment.base_offset for segment in segments.all] == [0, 10, 30]
    assert segments.holding(25) is new
    assert segments.sealed_bytes == 20
    assert not segments.positions, "they were places in other files"


@pytest.mark.parametrize("numbers", [(0, 2), (2, 3)])
def test_only_adjacent_sealed_segments_are_replaced(
    segments: LogSegments, numbers: tuple[int, ...]
) -> None:
    with pytest.raises(AssertionError):
        segments.replace([segments.all[number] for number in numbers], *pieces(0))
