"""ReplicateRequest and ReplicateResponse survive encoding; invalid messages are refused."""

import contextlib
from dataclasses import replace
from struct import Struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.framing import HopFramingError, frame, split
from highwater.model.ids import TopicId
from highwater.partition.replication.codec import (
    FollowerRequest,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from highwater.partition.replication.rows import Answered, Asked, SegmentPlace

TOPIC_A, TOPIC_B = TopicId(b"a" * 16), TopicId(b"b" * 16)
REQUEST = FollowerRequest(
    request_id=7,
    node_id=2,
    node_epoch=1 << 40,
    asked=[
        Asked(TOPIC_A, 0, 4, 1 << 40, 3, 1 << 33),
        Asked(TOPIC_B, 9, 0, 0, -1),
        Asked(TOPIC_A, 1, 1, 2, 1),
    ],
    forgotten=[(TOPIC_B, 1), (TOPIC_A, 2)],
    max_wait_ms=500,
    max_bytes=8 << 20,
    partition_max_bytes=1 << 20,
    accepts_references=True,
    bytes_only=[(TOPIC_B, 9)],
)


def answered(
    partition=0, *, topic=TOPIC_A, code=0, offsets=(9, 1, 10), diverging=(-1, -1), records=b""
):
    if isinstance(records, bytes):
        records = memoryview(records)
    return Answered(topic, partition, 4, 5, 3, code, *offsets, *diverging, records)


ANSWER = [
    answered(records=b"0123456789"),
    answered(1, code=6, offsets=(-1, -1, -1)),
    answered(2, topic=TOPIC_B, diverging=(3, 1 << 40)),
    answered(3, code=1, offsets=(1 << 50, 1 << 30, 1 << 60)),
    answered(4, records=b"abc"),
]

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)
TOPICS = st.binary(min_size=16, max_size=16).map(TopicId)
REQUESTS = st.builds(
    FollowerRequest,
    request_id=st.integers(0, 2**64 - 1),
    node_id=INT32,
    node_epoch=INT64,
    asked=st.lists(st.builds(Asked, TOPICS, INT32, INT32, INT64, INT32, INT64)),
    forgotten=st.lists(st.tuples(TOPICS, INT32)),
    max_wait_ms=UINT32,
    max_bytes=UINT32,
    partition_max_bytes=UINT32,
    accepts_references=st.booleans(),
    bytes_only=st.lists(st.tuples(TOPICS, INT32)),
)
SEGMENTS = st.sampled_from([("a-0/0.log", 0, 5), ("a-0/7.log", 0, 6), ("a-0/0.log", 1, 5)])
IN_FILES = st.builds(
    lambda file, *place: SegmentPlace(*file, *place),
    SEGMENTS, st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), INT32,
)  # fmt: skip
PLACES = (TOPICS, INT32, INT32, INT64, INT32)
WITH_RECORDS = st.builds(
    Answered, *PLACES, st.just(0), INT64, INT64, INT64, st.just(-1), INT64,
    st.binary(max_size=50).map(memoryview) | IN_FILES,
)  # fmt: skip
WITHOUT = st.builds(
    Answered, *PLACES, st.integers(-(2**15), 2**15 - 1), INT64, INT64, INT64, INT32, INT64,
    st.just(memoryview(b"")),
)  # fmt: skip


@settings(deadline=None)
@given(REQUESTS)
def test_requests_survive_encoding(request):
    assert decode_request(encode_request(request)) == request


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.lists(WITH_RECORDS | WITHOUT))
def test_answers_survive_encoding(request_id, rows):
    assert decode_response(encode_response(request_id, rows)) == (request_id, rows)


def test_the_bytes_are_those_of_the_proto():
    request = pb.ReplicateRequest.FromString(encode_request(REQUEST))
    assert list(request.topic_ids) == [TOPIC_A, TOPIC_B]
    assert request.partitions[24:48] == Struct("<Iiiqi").pack(1, 9, 0, 0, -1)
    assert request.forgotten == Struct("<IiIi").pack(1, 1, 0, 2)
    head, payload = split(encode_response(7, ANSWER))
    header = pb.ReplicateResponse.FromString(bytes(head))
    assert header.request_id == 7
    assert header.header_bytes == len(head)
    assert len(header.partitions) == 66 * len(ANSWER)
    first = Struct("<IiiqihqqqiqI").pack(0, 0, 4, 5, 3, 0, 9, 1, 10, -1, -1, 10)
    assert header.partitions[:66] == first
    assert payload == b"0123456789abc"


def test_records_are_views_of_the_message():
    message = encode_response(1, ANSWER)
    _, rows = decode_response(message)
    assert rows[0].records.obj is message
    assert [bytes(row.records) for row in rows] == [b"0123456789", b"", b"", b"", b"abc"]


def test_places_name_each_file_once():
    places = [
        SegmentPlace("a-0/0.log", 1, 77, 100, 40_000, 4),
        SegmentPlace("a-1/0.log", 1, 78, 0, 50_000, 3),
        SegmentPlace("a-0/0.log", 1, 77, 500, 60_000, 4),
    ]
    rows = [answered(records=places[0]), answered(1, records=b"abc")]
    rows += [answered(n + 1, records=places[n]) for n in (1, 2)]
    message = encode_response(7, rows)
    assert len(message) < 1000
    head, payload = split(message)
    header = pb.ReplicateResponse.FromString(bytes(head))
    assert [(file.path, file.log_dir, file.inode) for file in header.files] == [
        ("a-0/0.log", 1, 77),
        ("a-1/0.log", 1, 78),
    ]
    assert header.references[:20] == Struct("<IIQi").pack(0, 0, 100, 4)
    assert payload == b"abc"
    assert decode_response(message) == (7, rows)


@pytest.mark.parametrize("reference", [(9, 0), (1, 1), (0, 0)])
def test_references_to_no_row_or_no_file_are_refused(reference):
    """Row 0 has bytes, which then belong to no row."""

    def add(header):
        header.files.add(path="a-0/0.log", inode=5)
        header.references = Struct("<IIQi").pack(*reference, 0, 4)

    with pytest.raises(HopFramingError):
        decode_response(response_with(add))


def test_an_answer_may_be_empty():
    assert decode_response(encode_response(3, [])) == (3, [])


def header_of(message):
    return pb.ReplicateResponse.FromString(bytes(split(message)[0]))


def response_with(change, payload=b"0123456789abc"):
    header = header_of(encode_response(7, ANSWER))
    change(header)
    header.header_bytes = 1
    return frame(header.SerializeToString(), [payload], len(payload))


def cut_row(header):
    header.partitions = header.partitions[:-1]


def drop_topic(header):
    del header.topic_ids[-1]


def shorten_topic(header):
    header.topic_ids[0] = b"short"


def give_errors(header):
    rows = [header.partitions[at : at + 66] for at in range(0, len(header.partitions), 66)]
    rows[0] = rows[0][:24] + (6).to_bytes(2, "little") + rows[0][26:]
    header.partitions = b"".join(rows)


@pytest.mark.parametrize("change", [cut_row, drop_topic, shorten_topic, give_errors])
def test_answers_whose_rows_do_not_fit_are_refused(change):
    with pytest.raises(HopFramingError):
        decode_response(response_with(change))


@pytest.mark.parametrize("payload", [b"0123456789ab", b"0123456789abcd", b""])
def test_answers_need_exactly_the_records_that_they_promise(payload):
    with pytest.raises(HopFramingError):
        decode_response(response_with(lambda _header: None, payload))


def test_records_beside_a_divergence_are_refused():
    message = encode_response(1, [answered(diverging=(3, 4), records=b"x")])
    with pytest.raises(HopFramingError, match="divergence"):
        decode_response(message)


@pytest.mark.parametrize("field", ["partitions", "forgotten", "bytes_only"])
def test_requests_with_cut_rows_are_refused(field):
    request = pb.ReplicateRequest.FromString(encode_request(REQUEST))
    setattr(request, field, getattr(request, field)[:-1])
    with pytest.raises(HopFramingError):
        decode_request(request.SerializeToString())


@pytest.mark.parametrize("change", [drop_topic, shorten_topic])
def test_requests_that_name_no_topic_are_refused(change):
    request = pb.ReplicateRequest.FromString(encode_request(REQUEST))
    change(request)
    with pytest.raises(HopFramingError):
        decode_request(request.SerializeToString())


MESSAGES = [
    encode_request(REQUEST),
    encode_response(7, [*ANSWER, answered(5, records=SegmentPlace("a-0/0.log", 0, 5, 1, 2, 3))]),
]


@st.composite
def broken_messages(draw):
    """A message with some bytes changed, removed or inserted."""
    message = bytearray(draw(st.sampled_from(MESSAGES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(message)))
        upto = draw(st.integers(at, min(at + 5, len(message))))
        message[at:upto] = draw(st.binary(max_size=5))
    return bytes(message)


@settings(max_examples=500, deadline=None)
@given(broken_messages() | st.binary(max_size=60))
def test_changed_bytes_decode_or_are_refused(message):
    for decode in (decode_request, decode_response):
        with contextlib.suppress(HopFramingError):
            decode(message)


def test_log_starts_are_left_out_if_all_are_0():
    rows = [Asked(TOPIC_A, 0, 4, 9, 3), Asked(TOPIC_A, 1, 4, 9, 3)]
    message = encode_request(replace(REQUEST, asked=rows))
    assert pb.ReplicateRequest.FromString(message).log_starts == b""
    assert decode_request(message).asked == rows


def test_a_log_start_for_each_row():
    message = pb.ReplicateRequest.FromString(encode_request(REQUEST))
    message.log_starts = message.log_starts[:-8]
    with pytest.raises(HopFramingError):
        decode_request(message.SerializeToString())
