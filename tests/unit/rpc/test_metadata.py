import pytest

from highwater.rpc.metadata import (
    decode_metadata,
    decode_timeout,
    encode_metadata,
    encode_timeout,
    is_grpc,
)


@pytest.mark.parametrize(
    ("content_type", "ours"),
    [
        ("application/grpc", True),
        ("application/grpc+proto", True),
        ("application/grpc;charset=utf-8", True),
        ("application/grpc-web", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_content_types(content_type, ours):
    assert is_grpc(content_type) is ours


def test_metadata_travels():
    metadata = [("key", "value"), ("key", "again"), ("raw-bin", b"\x00\xff\xfe"), ("e-bin", b"")]
    fields = encode_metadata(metadata)
    assert ("raw-bin", "AP/+") in fields
    assert decode_metadata(fields) == metadata


def test_binary_values_with_padding_and_several_in_one_field():
    assert decode_metadata([("a-bin", "AA=="), ("b-bin", "AA,AQ")]) == [
        ("a-bin", b"\0"),
        ("b-bin", b"\0"),
        ("b-bin", b"\1"),
    ]


def test_grpcs_own_fields_are_no_metadata():
    fields = [("content-type", "x"), ("te", "trailers"), ("grpc-timeout", "1S"), ("grpc-x", "y")]
    assert decode_metadata(fields) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("Key", "v"), ("grpc-key", "v"), ("te", "v"), ("", "v"), ("key", "ü"), ("key", "\n"),
     ("key", b"raw"), ("key-bin", "text")],
)  # fmt: skip
def test_what_cannot_travel_is_our_mistake(key, value):
    with pytest.raises(ValueError, match=r"key|value"):
        encode_metadata([(key, value)])


@pytest.mark.parametrize("value", ["!", "A", "AAAAA"])
def test_what_is_not_base64(value):
    with pytest.raises(ValueError, match="base64"):
        decode_metadata([("a-bin", value)])


@pytest.mark.parametrize(
    ("timeout_s", "value"),
    [(0.0, "1u"), (0.25, "250000u"), (99.999999, "99999999u"), (100, "100000m"), (1e6, "1000000S"),
     (1e9, "16666667M"), (1e15, "99999999H")],
)  # fmt: skip
def test_timeouts_have_at_most_eight_digits(timeout_s, value):
    assert encode_timeout(timeout_s) == value


@pytest.mark.parametrize(
    ("value", "timeout_s"),
    [("1H", 3600), ("2M", 120), ("3S", 3), ("4m", 0.004), ("5u", 5e-6), ("6n", 6e-9)],
)
def test_timeouts_of_every_unit(value, timeout_s):
    assert decode_timeout(value) == pytest.approx(timeout_s)


@pytest.mark.parametrize("value", ["", "1", "S", "1s", "123456789S", "-1S", "1.5S", "²S"])
def test_what_is_no_timeout(value):
    with pytest.raises(ValueError, match="grpc-timeout"):
        decode_timeout(value)
