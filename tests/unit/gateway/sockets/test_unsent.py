"""Cuts what was sent off the head of a list of parts, byte by byte."""

import pytest

from highwater.gateway.sockets.unsent import without_first
from tests.unit.gateway.wires import Segment


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    with Segment(tmp_path_factory.mktemp("segment") / "log", 64) as made:
        yield made


def content(segment, parts):
    pieces = [
        bytes(part)
        if isinstance(part, bytes | memoryview)
        else segment.data[part.position : part.position + part.length]
        for part in parts
    ]
    assert all(pieces), "an empty part would never be sent"
    return b"".join(pieces)


def test_what_is_left_is_the_rest_of_the_bytes_wherever_the_cut_is(segment):
    whole = b"head" + segment.data[10:30] + b"middle" + segment.data[0:5]
    for count in range(len(whole) + 1):
        ranges = segment.range(10, 20), segment.range(0, 5)
        parts = [b"head", ranges[0], memoryview(b"middle"), ranges[1]]
        rest, of_buffers = without_first(parts, count)
        assert content(segment, rest) == whole[count:]
        assert of_buffers == min(count, 4) + min(max(count - 24, 0), 6)
        assert [r.released for r in ranges] == [int(count >= 24), int(count >= 35)]
        assert [part for part in rest if part in ranges] == [r for r in ranges if not r.released]


def test_a_view_is_cut_without_a_copy():
    data = bytearray(b"abcdef")
    rest, _ = without_first([memoryview(data)], 2)
    data[2:] = b"CDEF"
    assert [bytes(part) for part in rest] == [b"CDEF"]


def test_bytes_stay_bytes():
    """The outbox tells bytes from ranges by their type."""
    assert without_first([b"abc", b"def"], 4) == ([b"ef"], 4)
