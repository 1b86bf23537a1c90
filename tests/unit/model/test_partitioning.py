import pytest

from highwater.model.partitioning import coordinator_partition, java_string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),  # Known for hashing to Integer.MIN_VALUE.
        ("é", 233),
        ("😀", 0xD83D * 31 + 0xDE00),  # Two surrogates.
    ],
)
def test_java_string_hash(text, expected):
    assert java_string_hash(text) == expected


def test_partition_takes_the_absolute_value_and_min_value_is_zero():
    assert coordinator_partition("hello", 50) == 99162322 % 50
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert java_string_hash("console-consumer") < 0
    expected = -java_string_hash("console-consumer") % 50
    assert coordinator_partition("console-consumer", 50) == expected
