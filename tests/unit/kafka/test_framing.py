"""Frames and headers, against kafka-python's headers and byte by byte."""

import pytest
from kafka.protocol.api_header import RequestHeader as ForeignRequestHeader

from highwater.kafka import framing
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.errors import (
    DecodeError,
    EncodeError,
    InvalidValueError,
    TruncatedError,
)

PRODUCE_9 = bytes.fromhex("0000 0009 0000002a 0003 616263 00")


def test_header_version_2_has_a_classic_client_id_and_a_tag_section() -> None:
    assert framing.encode_request_header(ApiKey.PRODUCE, 9, 42, "abc") == PRODUCE_9
    header = framing.decode_request_header(PRODUCE_9 + b"body")
    assert header == (0, 9, 42, "abc", len(PRODUCE_9))


def test_header_version_1_has_no_tag_section() -> None:
    data = framing.encode_request_header(ApiKey.PRODUCE, 8, 42, "abc")
    assert data == bytes.fromhex("0000 0008 0000002a 0003 616263")
    assert framing.decode_request_header(memoryview(data)).body_pos == len(data)


def test_a_null_client_id() -> None:
    data = framing.encode_request_header(ApiKey.METADATA, 1, -1, None)
    assert framing.decode_request_header(data) == (3, 1, -1, None, 10)


@pytest.mark.parametrize(("key", "version"), [(0, 8), (0, 9), (18, 0), (18, 3), (36, 2)])
def test_request_headers_match_kafka_python(key: int, version: int) -> None:
    foreign = ForeignRequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=7, client_id="cli"
    )
    flexible = framing.request_header_version(key, version) == 2
    expected = bytes(foreign.encode(flexible=flexible))
    assert framing.encode_request_header(key, version, 7, "cli") == expected


def test_unknown_tags_of_the_header_are_skipped() -> None:
    data = PRODUCE_9[:-1] + b"\x01\x07\x02zz" + b"body"
    header = framing.decode_request_header(data)
    assert data[header.body_pos :] == b"body"


def test_unknown_keys_and_versions_still_give_a_header() -> None:
    header = framing.decode_request_header(framing.encode_request_header(999, 31_000, 5, "x"))
    assert header[:4] == (999, 31_000, 5, "x")


def test_every_cut_of_a_header_is_a_decode_error() -> None:
    data = PRODUCE_9[:-1] + b"\x02\x07\x02zz\x90\x01\x01y"
    assert framing.decode_request_header(data).body_pos == len(data)
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            framing.decode_request_header(data[:cut])


def test_a_client_id_that_is_not_text() -> None:
    with pytest.raises(InvalidValueError):
        framing.decode_request_header(bytes.fromhex("0003 0001 00000000 0001 ff"))


def test_values_that_do_not_fit_the_header() -> None:
    with pytest.raises(EncodeError):
        framing.encode_request_header(0, 9, 2**31, "x")
    with pytest.raises(EncodeError):
        framing.encode_request_header(0, 9, 1, "x" * 40_000)


def test_response_headers() -> None:
    assert framing.encode_response_header(ApiKey.PRODUCE, 8, 7) == b"\0\0\0\x07"
    assert framing.encode_response_header(ApiKey.PRODUCE, 9, 7) == b"\0\0\0\x07\0"
    assert framing.encode_response_header(ApiKey.API_VERSIONS, 4, 7) == b"\0\0\0\x07"
    assert framing.decode_response_header(b"\0\0\0\x07", 0, ApiKey.API_VERSIONS, 3) == (7, 4)
    tagged = b"\0\0\0\x07\x01\x05\x01x"
    assert framing.decode_response_header(tagged, 0, ApiKey.PRODUCE, 9) == (7, len(tagged))
    for cut in range(len(tagged)):
        with pytest.raises(TruncatedError):
            framing.decode_response_header(tagged[:cut], 0, ApiKey.PRODUCE, 9)
