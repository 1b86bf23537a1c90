"""Expected bytes, written by hand from Kafka's protocol guide."""

import pytest

from highwater.kafka.errors import InvalidLengthError
from highwater.kafka.message import DECODE_FAILURES
from highwater.partition.coordinator.records import UnknownRecordError
from highwater.partition.coordinator.struct_reader import StructReader


def golden(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", ""))


def test_numbers_are_signed() -> None:
    reader = StructReader(golden("ff | fffe | fffffffd | fffffffffffffffc"))
    assert (reader.int8(), reader.int16(), reader.int32(), reader.int64()) == (-1, -2, -3, -4)


def test_a_struct_that_is_not_flexible() -> None:
    reader = StructReader(golden("0001 67 | ffff | 00000002 abcd | ffffffff | 00000000"))
    assert reader.string() == "g"
    assert reader.nullable_string() is None
    assert reader.octets() == b"\xab\xcd"
    assert reader.nullable_count() == -1
    assert reader.count() == 0
    reader.end_of_struct()
    assert reader.tags() == {}


def test_a_flexible_struct() -> None:
    text = "02 67 | 00 | 03 abcd | 00 | 01 | 01 05 01 ee"
    reader = StructReader(golden(text), flexible=True)
    assert reader.string() == "g"
    assert reader.nullable_string() is None
    assert reader.octets() == b"\xab\xcd"
    assert reader.nullable_count() == -1
    assert reader.count() == 0
    assert reader.tags() == {5: b"\xee"}


def test_tagged_fields_are_passed_over() -> None:
    reader = StructReader(golden("02 00 00 07 01 ff | 2a"), flexible=True)
    reader.end_of_struct()
    assert reader.int8() == 42


@pytest.mark.parametrize(("version", "text"), [(0, "0001 67"), (1, "02 67")])
def test_the_version_says_whether_a_value_is_flexible(version: int, text: str) -> None:
    reader = StructReader(bytes((0, version)) + golden(text))
    assert reader.value_version(1, flexible_from=1) == version
    assert reader.string() == "g"


@pytest.mark.parametrize("version", ["0002", "ffff"])
def test_versions_that_nobody_knows(version: str) -> None:
    with pytest.raises(UnknownRecordError):
        StructReader(golden(version)).value_version(1, flexible_from=1)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ffff", StructReader.string),
        ("0003 6767", StructReader.string),
        ("fffe 6767", StructReader.nullable_string),
        ("ffffffff", StructReader.octets),
        ("00000003 0101", StructReader.count),
        ("fffffffe 0101", StructReader.nullable_count),
    ],
)
def test_lengths_that_cannot_be(text: str, read) -> None:
    with pytest.raises(InvalidLengthError):
        read(StructReader(golden(text)))


def test_what_is_cut_off() -> None:
    with pytest.raises(DECODE_FAILURES):
        StructReader(golden("0000")).int32()
    with pytest.raises(DECODE_FAILURES):
        StructReader(golden(""), flexible=True).tags()
