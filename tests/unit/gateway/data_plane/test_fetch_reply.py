"""A Fetch whose partitions several nodes lead: how long it waits, and what it gives."""

import pytest

from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from tests.unit.gateway.data_plane.fetch_world import stored, two_nodes, world
from tests.unit.gateway.wires import Segment


@pytest.fixture
def w():
    with world() as made:
        yield made


@pytest.fixture
def segment(tmp_path):
    with Segment(tmp_path / "log", 1 << 20) as made:
        yield made


def test_several_nodes_are_first_asked_without_a_wait(w, segment):
    w.send(two_nodes(min_bytes=500))
    one, two = w.links[1], w.links[2]
    asked = [(work.min_bytes, work.max_wait_ms) for work in (*one.works, *two.works)]
    assert asked == [(1, 0), (1, 0)]
    one.answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0, stored(segment, 0, 9), 9))
    assert not w.session.dirty, "the slower node is heard as well, or its partitions would starve"
    two.answer(FetchedPartition(0, 5, 5, 0, stored(segment, 9, 3), 3))
    assert w.reply(11)[1] == [
        (0, 0, 9, b""),
        (1, 0, 5, segment.data[9:12]),
        (3, 0, 8, segment.data[:9]),
    ]
    assert one.works == two.works == []


def test_the_first_node_with_data_ends_the_wait_of_the_others(w, segment):
    w.send(two_nodes(min_bytes=500))
    one, two = w.links[1], w.links[2]
    two.answer(FetchedPartition(0, 7, 7, 0))
    one.answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0))
    asked = [(work.min_bytes, work.max_wait_ms) for work in (*one.works, *two.works)]
    assert asked == [(1, 500), (1, 500)], "nobody has anything: now they wait"
    late = two.works[0]
    one.answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 9, 9, 0, stored(segment, 0, 9), 9))
    assert two.cancelled == [late]
    assert w.reply(11)[1] == [(0, 0, 9, b""), (1, 0, 7, b""), (3, 0, 9, segment.data[:9])]
    part = stored(segment, 0, 70_000)
    two.answer(FetchedPartition(0, 8, 8, 0, part, 70_000))
    assert part.released == 1, "an answer that comes too late is given back"
    assert w.wire.sent == []


def test_a_fetch_waits_for_all_nodes_if_none_has_data(w):
    w.send(two_nodes())
    one, two = w.links[1], w.links[2]
    for high_watermarks in ((1, 2, 3), (9, 7, 8)):
        a, b, c = (FetchedPartition(0, hw, hw, 0) for hw in high_watermarks)
        two.answer(b)
        assert not w.session.dirty
        one.answer(a, c)
    assert [p[2] for p in w.reply(11)[1]] == [9, 7, 8]


@pytest.mark.parametrize("caught_up", [True, False])
def test_a_fetch_waits_for_offsets_that_are_not_available_yet(w, caught_up):
    w.send(two_nodes())
    one, two = w.links[1], w.links[2]
    code = ErrorCode.OFFSET_NOT_AVAILABLE
    two.answer(FetchedPartition(code))
    one.answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0))
    assert not w.session.dirty
    assert [work.max_wait_ms for work in (*one.works, *two.works)] == [500, 500]
    two.answer(FetchedPartition(0, 7, 7, 0) if caught_up else FetchedPartition(code))
    one.answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0))
    told = [(p[1], p[2]) for p in w.reply(11)[1]]
    assert told == [(0, 9), (0, 7) if caught_up else (code, -1), (0, 8)]


def test_several_nodes_share_max_bytes_in_the_order_of_the_request(w, segment):
    w.send(two_nodes(max_bytes=100))
    parts = [stored(segment, 0, 90), stored(segment, 90, 20), stored(segment, 110, 10)]
    first, second, third = (FetchedPartition(0, 9, 9, 0, part, part.length) for part in parts)
    w.links[2].answer(second)
    w.links[1].answer(first, third)
    assert [p[3] for p in w.reply(11)[1]] == [segment.data[:90], b"", segment.data[110:120]]
    assert [part.released for part in parts] == [1, 1, 1]


def test_a_fetch_with_an_error_or_without_min_bytes_does_not_wait(w):
    w.send(two_nodes(min_bytes=0))
    w.links[2].answer(FetchedPartition(0, 7, 7, 0))
    w.links[1].answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0))
    assert [p[2] for p in w.reply(11)[1]] == [9, 7, 8]
    w.send(two_nodes())
    w.links[2].answer(FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE))
    w.links[1].answer(FetchedPartition(0, 9, 9, 0), FetchedPartition(0, 8, 8, 0))
    assert [p[2] for p in w.reply(11)[1]] == [9, -1, 8]


def test_a_client_disconnects_between_the_answers_of_two_nodes(w, segment):
    w.send(two_nodes())
    part = stored(segment, 0, 70_000)
    w.links[2].answer(FetchedPartition(0, 7, 7, 0, part, 70_000))
    w.session.connection_closed()
    assert part.released == 1
    assert w.links[1].cancelled == w.links[1].works
