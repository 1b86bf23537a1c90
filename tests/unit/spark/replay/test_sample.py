from __future__ import annotations

import pytest

from highwater.spark.combined_log import parse
from highwater.spark.replay.sample import LogLine, SampleUnusable, at_time, read_sample


def line(time: str, path: str = "/") -> str:
    return f'h - - [{time}] "GET {path} HTTP/1.1" 200 1 "-" "[x]"'


def test_lines_stand_in_the_order_of_their_times_and_others_are_left_out():
    texts = [
        line("01/Jan/1970:00:00:02 +0000", "/late"),
        "garbage",
        line("01/Jan/1970:01:00:01 +0100", "/first"),
        line("01/Jan/1970:00:00:01 +0000", "/second"),
    ]
    found = read_sample(texts, "a file")
    assert [(each.time_ms, each.client, each.text) for each in found] == [
        (1000, "h", texts[2]),
        (1000, "h", texts[3]),
        (2000, "h", texts[0]),
    ]


def test_no_line_at_all():
    with pytest.raises(SampleUnusable, match=r"x\.log has no line"):
        read_sample(["garbage"], "x.log")


def test_another_time_is_in_the_text_too_and_nothing_else_changes():
    old = LogLine(time_ms=0, client="h", text=line("01/Jan/1970:01:00:00 +0100"))
    new = at_time(old, 951_782_400_000)
    assert new == LogLine(
        time_ms=951_782_400_000, client="h", text=line("29/Feb/2000:00:00:00 +0000")
    )
    request = parse(new.text)
    assert request is not None
    assert request.time.timestamp() * 1000 == new.time_ms


def test_bytes_that_are_no_text_stay():
    raw = b"h \xff"
    assert LogLine(time_ms=0, client="h", text=raw.decode("utf-8", "surrogateescape")).value == raw
