import pytest

from highwater.embed.commands.quantities import bytes_of, count_of, milliseconds_of
from highwater.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1000", 1000),
        ("12b", 12),
        ("10GB", 10_000_000_000),
        ("10gb", 10_000_000_000),
        ("3 MB", 3_000_000),
        ("512KiB", 512 << 10),
        ("1TiB", 1 << 40),
        ("none", None),
    ],
)
def test_sizes(text, expected):
    assert bytes_of("--x", text) == expected


@pytest.mark.parametrize("text", ["", "-1", "1.5GB", "10 apples", "GB", "9" * 20, "10GBB", "None"])
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match="--x: expected bytes"):
        bytes_of("--x", text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("2147483647", 2**31 - 1), ("none", None)]
)
def test_counts(text, expected):
    assert count_of("--x", text) == expected


@pytest.mark.parametrize("text", ["", "-1", "1.5", "2147483648", "1k", "٣", "9" * 400])
def test_what_is_no_count(text):
    with pytest.raises(UsageError, match="--x: expected a whole number"):
        count_of("--x", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("5ms", 5),
        ("90s", 90_000),
        ("30m", 1_800_000),
        ("12h", 43_200_000),
        ("1d", 86_400_000),
        ("7D", 604_800_000),
    ],
)
def test_times(text, expected):
    assert milliseconds_of("--x", text) == expected


@pytest.mark.parametrize("text", ["", "5", "-1d", "1w", "d", "none", "9" * 20 + "d"])
def test_what_is_no_time(text):
    with pytest.raises(UsageError, match="--x: expected a time"):
        milliseconds_of("--x", text)
