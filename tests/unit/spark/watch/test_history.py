"""Rows of the table of alarms as changes, and tables that are not there; tests/spark reads real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.watch import history
from highwater.spark.watch.alarms import AlarmChange


def test_rows_come_newest_first_and_go_oldest_first():
    def row(state: str, at_s: int, value: float | None) -> dict[str, Any]:
        return {
            "rule": "r", "state": state, "at_s": at_s, "since_s": 60, "value": value, "limit": 2.0,
        }  # fmt: skip

    assert history.oldest_first([row("end", 120, None), row("begin", 60, 3.0)]) == [
        AlarmChange(rule="r", begins=True, at_s=60, since_s=60, value=3.0, limit=2.0),
        AlarmChange(rule="r", begins=False, at_s=120, since_s=60, value=None, limit=2.0),
    ]


def test_before_the_first_commit():
    table: Any = SimpleNamespace(exists=lambda: False)
    assert history.minutes(table) == []
    assert history.changes(table) == []
