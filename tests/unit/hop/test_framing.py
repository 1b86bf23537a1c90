"""Stream messages are whole protobufs with a sliced payload; invalid ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.framing import (
    JOIN_BYTES_MAX,
    PLACEHOLDER,
    HopFramingError,
    bytes_of,
    frame,
    joined,
    split,
)


def message_of(payload: bytes, pieces: int = 1) -> bytes:
    header = pb.AppendRequest(header_bytes=PLACEHOLDER, message_id=77, topic_ids=[b"t" * 16])
    step = max(1, len(payload) // pieces)
    parts = [memoryview(payload)[i : i + step] for i in range(0, len(payload), step)]
    return joined(frame(header.SerializeToString(), parts, len(payload)))


@pytest.mark.parametrize("nbytes", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_any_protobuf_reader_understands_the_whole(nbytes):
    payload = bytes(i % 251 for i in range(nbytes))
    message = message_of(payload, pieces=3)
    whole = pb.AppendRequest.FromString(message)
    assert whole.payload == payload
    assert whole.message_id == 77
    head, found = split(message)
    assert bytes(found) == payload
    assert whole.header_bytes == len(head)
    assert pb.AppendRequest.FromString(head).topic_ids == [b"t" * 16]


def test_short_pieces_are_joined_and_long_ones_passed_on():
    header = pb.AppendRequest(header_bytes=PLACEHOLDER).SerializeToString()
    short = [b"s" * (JOIN_BYTES_MAX - 1)] * 3
    message = frame(header, short, sum(map(len, short)))
    assert type(message) is bytes
    assert bytes_of(message) == len(message)
    long = [memoryview(b"l" * JOIN_BYTES_MAX)] * 3
    parts = frame(header, long, 3 * JOIN_BYTES_MAX)
    assert all(a is b for a, b in zip(parts[1:], long, strict=True))
    assert bytes_of(parts) == len(joined(parts))
    assert split(joined(parts))[1] == b"l" * 3 * JOIN_BYTES_MAX


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_split_and_joined(buffer):
    message = buffer(message_of(b"p" * 300))
    assert bytes(split(message)[1]) == b"p" * 300
    assert joined(message) == bytes(message)
    assert bytes_of(message) == len(message)


def test_a_message_cut_anywhere_is_refused():
    message = message_of(b"p" * 300)
    head, _ = split(message)
    for size in range(len(message)):
        if size == len(head):
            continue  # A message without payload.
        with pytest.raises(HopFramingError):
            split(message[:size])


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x0d\x05\0\0",
        b"\x0d\x04\0\0\0",
        b"\x0d\xff\xff\xff\xff",
        b"\x0e\x05\0\0\0",
        b"\x0d\x05\0\0\0\x7b\x01x",
        b"\x0d\x05\0\0\0\x7a",
        b"\x0d\x05\0\0\0\x7a\x80\x80\x80\x80\x80\x80\x01x",
        b"\x0d\x05\0\0\0\x7a\x02x",
        b"\x0d\x05\0\0\0\x7a\x01xy",
    ],
)
def test_malformed_messages_are_refused(message):
    with pytest.raises(HopFramingError):
        split(message)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_the_framing_error(message):
    try:
        head, payload = split(message)
    except HopFramingError:
        return
    assert len(head) + len(payload) <= len(message)
