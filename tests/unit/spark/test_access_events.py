from __future__ import annotations

from datetime import UTC, datetime

import pytest

from highwater.spark.access_events import AccessEvent, parse_line

HEAD = '10.0.0.1 - - [02/Jan/2024:03:04:05 +0100] "GET /a?b HTTP/1.1" 404 7'


def test_all_fields():
    assert parse_line(f'{HEAD} "https://example.com:8080/from/here?q#x" "agent"') == AccessEvent(
        time=datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC),
        client="10.0.0.1",
        path="/a",
        status=404,
        size_bytes=7,
        referrer_host="example.com",
        referrer_path="/from/here",
    )


@pytest.mark.parametrize(
    ("rest", "host", "path"),
    [
        ("", "", ""),
        (' "-" "-"', "", ""),
        (' "http://example.com" "-"', "example.com", "/"),
        (' "http://example.com/cut off', "", ""),
        (r' "http://example.com/a\"b" "-"', "example.com", r"/a\"b"),
        (' "android-app://example" "-"', "", ""),
        (' "/relative" "-"', "", ""),
    ],
)
def test_referrers(rest: str, host: str, path: str):
    found = parse_line(HEAD + rest)
    assert found is not None
    assert (found.referrer_host, found.referrer_path) == (host, path)


def test_a_line_that_is_none():
    assert parse_line("garbage") is None
