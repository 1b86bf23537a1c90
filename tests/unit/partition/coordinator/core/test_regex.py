import random
import time

import pytest

from highwater.partition.coordinator.core.regex import (
    PATTERN_CHARS_MAX,
    InvalidRegexError,
    compile_pattern,
)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("orders", ["orders"], ["orders-1", "my-orders", "Orders"]),
        ("orders.*", ["orders", "orders-1"], ["my-orders"]),
        ("a|b", ["a", "b"], ["ab", ""]),
        ("(?i)Orders", ["orders", "ORDERS"], ["order"]),
        ("\\Qa.b\\E", ["a.b"], ["axb"]),
        ("[[:alpha:]]+_\\d{2}", ["ab_12"], ["ab_1", "1_12"]),
        ("(?P<site>eu|us)-(?<kind>\\w+)", ["eu-logs"], ["as-logs"]),
        ("", [""], ["a"]),
    ],
)
def test_the_whole_name_is_matched(text, matching, other):
    pattern = compile_pattern(text)
    assert [name for name in matching + other if pattern.matches(name)] == matching


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(abc", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a**", "invalid nested repetition operator"),
        ("a++", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("*a", "missing argument to repetition operator"),
        ("\\", "trailing backslash at end of expression"),
        ("\\8", "invalid escape sequence"),
        ("(?P<a", "invalid named capture"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("[z-a]", "invalid character class range"),
        ("abc)", "unexpected )"),
        ("(\\pL{1000}|\\pN){1,1}", "pattern too large - compile failed"),
    ],
)
def test_invalid_patterns_in_kafkas_words(text, why):
    with pytest.raises(InvalidRegexError) as caught:
        compile_pattern(text)
    expected = f"`{text}` is not a valid regular expression: {why}."
    assert str(caught.value) == expected


def test_half_of_a_pair_is_no_pattern():
    with pytest.raises(InvalidRegexError, match="invalid UTF-8"):
        compile_pattern("a\ud800")


def test_patterns_have_a_longest_length():
    drawn = random.Random(1)
    names = ("".join(drawn.choices("abcdefghijklmnopqrstuvwxyz.-", k=20)) for _ in range(600))
    longest = "|".join(names)[:PATTERN_CHARS_MAX]
    assert compile_pattern(longest).matches(longest.split("|")[0])
    with pytest.raises(InvalidRegexError, match="more than 10000 characters") as caught:
        compile_pattern(longest + "a")
    assert len(str(caught.value)) < 300


def test_no_pattern_takes_long():
    """Each of these takes a backtracking matcher years."""
    pattern = compile_pattern("(a?){500}a{249}|(x+x+)+y|([ab]*)*c")
    began_s = time.perf_counter()
    assert pattern.matches("a" * 249)
    assert not pattern.matches("x" * 249)
    assert not pattern.matches("ab" * 124)
    assert time.perf_counter() - began_s < 1
