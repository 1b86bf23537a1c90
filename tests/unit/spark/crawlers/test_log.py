"""Rows of the table of detections as changes; tests/spark reads a real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.crawlers import log
from highwater.spark.crawlers.log import ClientChange


def test_rows_come_newest_first_and_go_oldest_first():
    rows = [
        {"client": "c", "state": state, "at_s": at_s, "session_start_s": 1, "requests": requests}
        for state, at_s, requests in (("end", 90, 9), ("begin", 5, 3))
    ]
    assert log.oldest_first(rows) == [
        ClientChange(client="c", detected=True, at_s=5, session_start_s=1, requests=3),
        ClientChange(client="c", detected=False, at_s=90, session_start_s=1, requests=9),
    ]


def test_before_the_first_commit():
    table: Any = SimpleNamespace(exists=lambda: False)
    assert log.changes(table) == []
