"""Variable-length integers at their limits, and invalid tag sections."""

import pytest
from aiokafka.record.util import encode_varint_py

from highwater.kafka.errors import InvalidLengthError, InvalidValueError, TruncatedError
from highwater.kafka.primitives import (
    length_error,
    read_uvarint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
    uvarint,
    varint,
    varlong,
)

INT32 = [0, -1, 1, 63, -64, 64, 300, -300, 2**31 - 1, -(2**31)]
INT64 = [*INT32, 2**31, 2**40, -(2**40), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (2_097_151, b"\xff\xff\x7f"),
        (2_097_152, b"\x80\x80\x80\x01"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_unsigned_varints(value: int, data: bytes) -> None:
    assert uvarint(value) == data
    assert read_uvarint(b"??" + data + b"!", 2) == (value, 2 + len(data))


@pytest.mark.parametrize("value", INT64)
def test_zigzag_varints_match_aiokafka(value: int) -> None:
    expected = bytearray()
    encode_varint_py(value, expected.append)
    assert varlong(value) == expected
    assert read_varlong(expected, 0) == (value, len(expected))
    if value in INT32:
        assert varint(value) == expected
        assert read_varint(expected, 0) == (value, len(expected))


def test_overlong_varints_are_refused() -> None:
    with pytest.raises(InvalidValueError):
        read_uvarint(b"\x80" * 5 + b"\x00", 0)
    with pytest.raises(InvalidValueError):
        read_varlong(b"\x80" * 10 + b"\x00", 0)


@pytest.mark.parametrize("read", [read_uvarint, read_varint, read_varlong])
def test_a_cut_off_varint_shows_as_index_error(read) -> None:
    for data in (b"", b"\x80", b"\xff\xff"):
        with pytest.raises(IndexError):
            read(data, 0)


def test_tagged_fields_are_skipped() -> None:
    section = b"\x05\x03abc" + b"\x80\x01\x00"
    assert skip_tagged_fields(section + b"rest", 0, 20, 2) == len(section)


def test_more_than_127_tags_continue_the_count() -> None:
    section = uvarint(200) + b"".join(uvarint(tag) + b"\x01x" for tag in range(200))
    assert skip_tagged_fields(section, 1, len(section), section[0]) == len(section)


def test_a_tag_that_runs_past_the_end() -> None:
    with pytest.raises(TruncatedError):
        skip_tagged_fields(b"\x00\x05abc", 0, 5, 1)
    with pytest.raises(TruncatedError):
        skip_tagged_fields(b"\x00\xff\xff\xff\xff\x0f", 0, 6, 1)


@pytest.mark.parametrize(
    ("length", "kind"),
    [(-1, InvalidLengthError), (11, TruncatedError), (10, InvalidLengthError)],
)
def test_length_errors_say_what_is_wrong(length: int, kind: type[Exception]) -> None:
    error = length_error("name", length, 90, 100)
    assert type(error) is kind
    assert "name" in str(error)
