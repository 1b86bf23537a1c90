"""The log format: valid and invalid lines, and the time per line."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from highwater.spark.combined_log import (
    SECONDS_MAX,
    SECONDS_MIN,
    SIZE_BYTES_MAX,
    Request,
    parse,
)

APACHES_EXAMPLE = (
    '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 '
    '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
)


def line(request: str = "GET / HTTP/1.1", *, rest: str = '200 5 "-" "-"') -> str:
    return f'10.0.0.1 - - [17/May/2015:10:05:03 +0000] "{request}" {rest}'


def test_the_example_of_apaches_documentation() -> None:
    assert parse(APACHES_EXAMPLE) == Request(
        time=datetime(2000, 10, 10, 13, 55, 36, tzinfo=timezone(timedelta(hours=-7))),
        path="/apache_pb.gif",
        status=200,
        size_bytes=2326,
    )


@pytest.mark.parametrize(
    ("request_line", "path"),
    [
        ("GET /a?b=c&d=/e HTTP/1.1", "/a"),
        ("GET /a?b?c HTTP/1.1", "/a"),
        ("OPTIONS * HTTP/1.0", "*"),
        (r"GET /say/\"hi\" HTTP/1.1", r"/say/\"hi\""),
        ("-", "-"),
        (r"\x16\x03\x01", r"\x16\x03\x01"),
        ("", ""),
    ],
)
def test_path(request_line: str, path: str) -> None:
    found = parse(line(request_line))
    assert found is not None
    assert found.path == path


def test_a_dash_is_no_bytes() -> None:
    found = parse(line(rest='304 - "-" "-"'))
    assert found is not None
    assert (found.status, found.size_bytes) == (304, 0)


@pytest.mark.parametrize("rest", ["200 235", '200 235 "-" "Mozilla/5.0 (cut o', '200 235 "-'])
def test_a_line_that_was_cut_off_behind_the_bytes_counts(rest: str) -> None:
    found = parse(line(rest=rest))
    assert found is not None
    assert found.size_bytes == 235


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1 200 5',
        '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20 5 "-" "-"',
        '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5x "-" "-"',
        '10.0.0.1 - - [17/Mai/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "-"',
        '10.0.0.1 - - [31/Feb/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "-"',
        '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" ٢٠٠ 5 "-" "-"',
        line(rest="200 " + "9" * 14),
    ],
)
def test_not_in_the_format(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "at",
    [
        "10/Oct/0000:13:55:36 +0000",
        "10/Oct/+12345:13:55:36 +0000",
        "10/Oct/-0001:13:55:36 +0000",
        "1/Oct/2000:13:55:36 +0000",
        # In UTC, of the years 0 and 10000.
        "01/Jan/0001:00:30:00 +0100",
        "31/Dec/9999:23:30:00 -0100",
    ],
)
def test_times_that_are_out_of_reach(at: str) -> None:
    assert parse(f'h - - [{at}] "GET / HTTP/1.1" 200 1') is None


def test_the_limits_are_in_the_format() -> None:
    found = parse(line(rest=f"200 {SIZE_BYTES_MAX}"))
    assert found is not None
    assert found.size_bytes == SIZE_BYTES_MAX
    for at, seconds in (
        ("01/Jan/0001:00:00:00 +0000", SECONDS_MIN),
        ("31/Dec/9999:23:59:59 +0000", SECONDS_MAX),
    ):
        found = parse(f'h - - [{at}] "GET / HTTP/1.1" 200 1')
        assert found is not None
        assert found.time.timestamp() == seconds


def test_every_hour_of_a_day_is_kept() -> None:
    found = [
        parse(f'h - - [01/Jan/2024:{hour:02}:59:59 +0000] "GET / HTTP/1.1" 200 1')
        for hour in range(24)
    ]
    assert [each.time for each in found if each] == [
        datetime(2024, 1, 1, hour, 59, 59, tzinfo=UTC) for hour in range(24)
    ]


@pytest.mark.parametrize(
    "hostile", ['"' + "\\" * 200_000, '"' + '\\"' * 100_000, '"' + "a" * 200_000, "[" * 200_000]
)
def test_no_line_takes_long(hostile: str) -> None:
    started = time.monotonic()
    assert parse("h - - [17/May/2015:10:05:03 +0000] " + hostile) is None
    assert time.monotonic() - started < 1.0
