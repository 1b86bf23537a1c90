"""Incremental fetches without a partition, and replies without one, beside the generated codec."""

import pytest

from highwater.gateway.core.empty_fetch import (
    EmptyFetchShape,
    pack_empty_reply,
    session_epoch_at,
)
from highwater.gateway.core.fetch_limits import FetchLimits
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header, encode_response_header
from highwater.kafka.messages import fetch

VERSIONS = pytest.mark.parametrize("version", range(7, 19))


def empty_frame(version, epoch, *, correlation_id=1, session_id=77, topics=(), **changes):
    fields = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, **changes}
    request = fetch.FetchRequest(
        session_id=session_id, session_epoch=epoch, topics=topics, **fields
    )
    header = encode_request_header(fetch.API_KEY, version, correlation_id, "client")
    return bytearray(header + fetch.encode_request(request, version))


@VERSIONS
def test_the_epoch_is_found(version):
    frame = empty_frame(version, 0x01020304)
    at = session_epoch_at(frame, version)
    assert frame[at : at + 4] == b"\1\2\3\4"
    assert frame[at - 4 : at] == (77).to_bytes(4, "big")


@VERSIONS
def test_the_same_request_in_its_epoch_matches(version):
    shape = EmptyFetchShape(version, empty_frame(version, 3), FetchLimits(500, 1, 1 << 20, 0))
    assert shape.matches(empty_frame(version, 4, correlation_id=9), 4)
    assert shape.matches(empty_frame(version, 2**31 - 1), 2**31 - 1)
    assert not shape.matches(empty_frame(version, 4), 5)
    assert not shape.matches(empty_frame(version, 4, session_id=78), 4)
    assert not shape.matches(empty_frame(version, 4, max_wait_ms=501), 4)
    asked = fetch.FetchRequestFetchPartition(partition=0)
    topic = fetch.FetchRequestFetchTopic("a", bytes(16), [asked])
    assert not shape.matches(empty_frame(version, 4, topics=[topic]), 4)


@VERSIONS
@pytest.mark.parametrize(
    ("session_id", "throttle_ms", "code"),
    [(77, 0, 0), (0, 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND), (2**31 - 1, 900, 0)],
)
def test_a_reply_without_partitions_is_that_of_the_codec(version, session_id, throttle_ms, code):
    response = fetch.FetchResponse(
        throttle_time_ms=throttle_ms, error_code=code, session_id=session_id
    )
    body = encode_response_header(fetch.API_KEY, version, 5) + fetch.encode_response(
        response, version
    )
    packed = pack_empty_reply(version, 5, session_id, throttle_ms, code)
    assert packed == len(body).to_bytes(4, "big") + body
