import pytest
from hpack import Encoder

from highwater.http2.errors import ConnectionViolationError, ErrorCode, StreamViolationError
from highwater.http2.headers import (
    HeaderDecoder,
    HeaderEncoder,
    request_of,
    response_of,
    trailers_of,
)
from tests.support.http2_wire import REQUEST


def test_what_is_encoded_is_decoded_whatever_its_octets():
    fields = [(":status", "200"), ("key", "\xff\x80 caf\xe9"), ("key", "again")]
    assert HeaderDecoder(1 << 14).decode(HeaderEncoder().encode(fields)) == fields


def test_a_list_above_the_limit_ends_the_connection():
    block = Encoder().encode([("k", "v" * 200)])
    with pytest.raises(ConnectionViolationError) as caught:
        HeaderDecoder(100).decode(block)
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_broken_block_ends_the_connection():
    with pytest.raises(ConnectionViolationError):
        HeaderDecoder(1 << 14).decode(b"\xff\xff\xff\xff\xff\xff")


def test_a_smaller_table_is_announced_in_the_next_block():
    encoder = HeaderEncoder()
    decoder = HeaderDecoder(1 << 14)
    decoder.decode(encoder.encode([("key", "value")]))
    encoder.set_table_bytes(0)
    block = encoder.encode([("key", "value")])
    assert block[0] & 0xE0 == 0x20
    assert decoder.decode(block) == [("key", "value")]


def test_what_a_broken_block_has_is_not_quoted():
    with pytest.raises(ConnectionViolationError) as caught:
        HeaderDecoder(1 << 14).decode(b"\x7f" + b"\xff" * 20_000)
    assert len(str(caught.value)) <= 100


def test_of_many_table_sizes_the_least_and_the_last_are_announced():
    encoder = HeaderEncoder()
    decoder = HeaderDecoder(1 << 14)
    decoder.decode(encoder.encode([("key", "value")]))
    for nbytes in (4_000, 30, 100, 0, 4_096, 200):
        encoder.set_table_bytes(nbytes)
    block = encoder.encode([("key", "value")])
    assert block.startswith(b"\x20\x3f\xa9\x01"), "0, then 200"
    assert block[4] & 0xE0 != 0x20
    assert decoder.decode(block) == [("key", "value")]


def test_a_table_size_that_is_set_twice_is_announced():
    encoder = HeaderEncoder()
    decoder = HeaderDecoder(1 << 14)
    decoder.decode(encoder.encode([("key", "value")]))
    encoder.set_table_bytes(0)
    encoder.set_table_bytes(0)
    assert encoder.encode([("key", "value")]).startswith(b"\x20")


@pytest.mark.parametrize("update", [b"\x20", b"\x3e", b"\x3f\x00", b"\x3f\xe1\x1f"])
def test_a_block_has_at_most_two_updates_of_the_table(update):
    field = b"\x00\x01k\x01v"
    assert HeaderDecoder(1 << 14).decode(update * 2 + field) == [("k", "v")]
    with pytest.raises(ConnectionViolationError) as caught:
        HeaderDecoder(1 << 14).decode(update * 3 + field)
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


def test_a_request():
    request = request_of([*REQUEST, ("content-length", "12"), ("te", "trailers")])
    assert (request.method, request.path, request.content_length) == ("POST", "/test.Test/Call", 12)
    assert ("content-type", "application/grpc") in request.fields


@pytest.mark.parametrize(
    "fields",
    [
        REQUEST[1:],
        [*REQUEST, (":path", "/again")],
        [*REQUEST, (":later", "x")],
        [(":status", "200"), *REQUEST],
        [REQUEST[0], *REQUEST],
        [(":method", "POST"), (":scheme", "http"), (":path", "")],
        [*REQUEST, ("Upper", "x")],
        [*REQUEST, ("", "x")],
        [*REQUEST, ("connection", "close")],
        [*REQUEST, ("te", "gzip")],
        [*REQUEST, ("key", "a\nb")],
        [*REQUEST, ("content-length", "1"), ("content-length", "2")],
        [*REQUEST, ("content-length", "-1")],
    ],
)
def test_malformed_requests(fields):
    with pytest.raises(StreamViolationError) as caught:
        request_of(fields)
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR


def test_a_response():
    assert response_of([(":status", "200"), ("key", "value")]) == (200, [("key", "value")])


@pytest.mark.parametrize(
    "fields", [[], [(":status", "2OO")], [(":status", "99")], [(":status", "200"), (":path", "/")]]
)
def test_malformed_responses(fields):
    with pytest.raises(StreamViolationError):
        response_of(fields)


def test_trailers_have_no_pseudo_header_fields():
    assert trailers_of([("grpc-status", "0")]) == [("grpc-status", "0")]
    with pytest.raises(StreamViolationError):
        trailers_of([(":status", "200")])


def test_secrets_are_not_told_by_printing():
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/a/B"), ("authorization", "xyz")]
    request = request_of(fields)
    assert request.fields == [("authorization", "xyz")]
    assert "xyz" not in repr(request)
