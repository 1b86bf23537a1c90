"""Decoding by the codec: a request that cannot be decoded closes its connection, with a reason."""

import pytest

from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.kafka.messages import fetch
from tests.unit.gateway.core.shape_frames import fetch_frame, fetch_request

DECODER = RequestDecoder("Fetch", range(4, 13), fetch.decode_request)


class Session:
    def __init__(self):
        self.refused = []

    def refuse(self, request_bytes, reason):
        self.refused.append((request_bytes, reason))


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_request_is_decoded_behind_its_header(version):
    session = Session()
    frame = fetch_frame(version, fetch_offset=77)
    assert DECODER.decode(session, frame, version) == fetch_request(frame)
    assert session.refused == []


@pytest.mark.parametrize("version", [-1, 3, 13])
def test_a_version_that_is_not_served_is_refused(version):
    session = Session()
    frame = fetch_frame(12)
    assert DECODER.decode(session, frame, version) is None
    assert session.refused == [(len(frame), f"Fetch version {version} is not served")]


@pytest.mark.parametrize("kept", [8, 12, -1])
def test_a_truncated_frame_is_refused(kept):
    session = Session()
    frame = fetch_frame(12)[:kept]
    assert DECODER.decode(session, frame, 12) is None
    ((request_bytes, reason),) = session.refused
    assert request_bytes == len(frame)
    assert reason.startswith("malformed Fetch: ")
