import pytest

from highwater.http2.errors import ErrorCode
from highwater.rpc.status import (
    DETAILS_BYTES_MAX,
    StatusCode,
    code_of_http,
    code_of_reset,
    code_of_trailer,
    decode_details,
    encode_details,
)


@pytest.mark.parametrize(
    "details", ["", "plain words", "100 %\n", "nicht möglich: ½", "a%20b", "~`^"]
)
def test_details_travel_as_printable_ascii(details):
    encoded = encode_details(details)
    assert all(" " <= character <= "~" for character in encoded)
    assert decode_details(encoded) == details


@pytest.mark.parametrize("before", ["", "x", "xx"])
@pytest.mark.parametrize("character", ["x", "%", "ö", "水"])
def test_long_details_are_cut_between_escapes(before, character):
    encoded = encode_details(before + character * 20_000)
    assert DETAILS_BYTES_MAX - 2 <= len(encoded) <= DETAILS_BYTES_MAX
    decoded = decode_details(encoded)
    assert decoded.rstrip("\ufffd") == before + character * (
        len(decoded.rstrip("\ufffd")) - len(before)
    )


def test_details_that_are_not_utf8_are_no_error():
    assert decode_details("%FF%zz") == "\ufffd%zz"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("0", StatusCode.OK),
        ("16", StatusCode.UNAUTHENTICATED),
        ("17", StatusCode.UNKNOWN),
        ("-1", StatusCode.UNKNOWN),
        ("x", StatusCode.UNKNOWN),
        ("²", StatusCode.UNKNOWN),
        ("", StatusCode.UNKNOWN),
        (None, StatusCode.UNKNOWN),
    ],
)
def test_grpc_status(value, code):
    assert code_of_trailer(value) is code


def test_statuses_of_resets_and_of_other_responses():
    assert code_of_reset(ErrorCode.CANCEL) is StatusCode.CANCELLED
    assert code_of_reset(ErrorCode.REFUSED_STREAM) is StatusCode.UNAVAILABLE
    assert code_of_reset(0xFFFF) is StatusCode.UNKNOWN
    assert code_of_http(503) is StatusCode.UNAVAILABLE
    assert code_of_http(404) is StatusCode.UNIMPLEMENTED
    assert code_of_http(200) is StatusCode.UNKNOWN
