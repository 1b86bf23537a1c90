"""The short way for Fetch reads the same as the codec, and replies with the same bytes."""

from types import SimpleNamespace

import pytest

from highwater.gateway.core.fetch_shape import FetchShape, learn, match, name_part, pack_reply
from tests.unit.gateway.core.shape_frames import (
    fetch_frame,
    fetch_meaning,
    fetch_reply_by_codec,
    fetch_request,
    learn_fetch,
    topic_id_of,
)

VERSIONS = range(4, 19)


@pytest.mark.parametrize("version", VERSIONS)
def test_another_offset_in_another_partition_matches(version):
    shape = learn_fetch(fetch_frame(version, fetch_offset=7))
    assert shape is not None
    asked = {"partition": 70_000, "fetch_offset": 1 << 40, "partition_max_bytes": 3}
    if version >= 9:
        asked["current_leader_epoch"] = 12
    if version >= 12:
        asked["last_fetched_epoch"] = 11
    frame = fetch_frame(version, correlation_id=99, **asked)
    assert match(shape, frame) == fetch_meaning(frame)[-1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "clienu"},
        {"topic": "orderz"},
        {"topic": "orders2"},
        {"max_wait_ms": 501},
        {"min_bytes": 2},
        {"max_bytes": 1},
        {"isolation_level": 1},
    ],
)
def test_a_difference_in_any_other_field_does_not_match(version, other):
    assert match(learn_fetch(fetch_frame(version)), fetch_frame(version, **other)) is None


@pytest.mark.parametrize("version", range(7, 19))
def test_another_session_epoch_does_not_match(version):
    shape = learn_fetch(fetch_frame(version))
    assert match(shape, fetch_frame(version, session_epoch=-1)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_and_longer_frames_do_not_match(version):
    frame = fetch_frame(version)
    shape = learn_fetch(frame)
    for size in range(8, len(frame)):
        assert match(shape, frame[:size]) is None
    assert match(shape, frame + b"\0") is None


def test_a_frame_with_ambiguous_field_positions_is_not_learnt():
    frame = fetch_frame(4, fetch_offset=0, partition=0, partition_max_bytes=0, client_id="\0" * 40)
    assert learn_fetch(frame) is None
    asked = fetch_request(fetch_frame(4)).topics[0].partitions[0]
    assert learn(fetch_frame(4, fetch_offset=5), 4, asked, None) is None


@pytest.mark.parametrize("version", range(13, 19))
def test_an_id_and_a_name_are_two_shapes(version):
    """Frames of version 12 and 13 with a name of 15 bytes have the same size."""
    named = fetch_frame(12, topic="n" * 15)
    by_id = fetch_frame(version, topic="n" * 15)
    assert match(learn_fetch(by_id), named) is None
    assert match(learn_fetch(named), by_id) is None


def make_shape(version, topic):
    shape = learn_fetch(fetch_frame(version, topic=topic))
    assert isinstance(shape, FetchShape)
    shape.name = name_part(version, topic.encode(), topic_id_of(topic))
    return shape


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topic", ["a", "t" * 126, "t" * 127, "t" * 128, "t" * 249])
@pytest.mark.parametrize("nbytes", [0, 1, 126, 127, 128, 20_000])
@pytest.mark.parametrize("aborted", [None, [], [(7, 1 << 40)], [(n, n + 1) for n in range(200)]])
def test_the_reply_has_the_codecs_bytes(version, topic, nbytes, aborted):
    result = SimpleNamespace(
        error_code=0 if nbytes else 75,
        high_watermark=1 << 40,
        last_stable_offset=(1 << 40) - 1,
        log_start_offset=3,
        aborted_transactions=aborted,
        records=b"r" * nbytes,
        nbytes=nbytes,
        throttle_ms=77,
    )
    head, tail = pack_reply(make_shape(version, topic), 41, 9, result, 77)
    assert head + result.records + tail == fetch_reply_by_codec(version, 41, topic, 9, result)


@pytest.mark.parametrize("edge", [1 << 7, 1 << 14, 1 << 21])
@pytest.mark.parametrize("version", [12, 18])
def test_record_lengths_around_an_extra_varint_byte(edge, version):
    shape = make_shape(version, "orders")
    for nbytes in range(edge - 3, edge + 2):
        result = SimpleNamespace(
            error_code=0,
            high_watermark=9,
            last_stable_offset=9,
            log_start_offset=3,
            aborted_transactions=None,
            records=b"r" * nbytes,
            nbytes=nbytes,
            throttle_ms=0,
        )
        head, tail = pack_reply(shape, 41, 9, result, 0)
        expected = fetch_reply_by_codec(version, 41, "orders", 9, result)
        assert head + result.records + tail == expected
