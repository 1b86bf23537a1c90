"""Rows as minutes; tests/spark computes them in Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.watch.minute import Minute
from highwater.spark.watch.traffic import in_order


def test_rows_come_in_any_order():
    rows = [{"start_s": 120, "requests": 2, "size_p50": 7}, {"start_s": 60, "requests": 1}]
    assert in_order(rows) == [
        Minute(start_s=60, requests=1),
        Minute(start_s=120, requests=2, size_p50=7),
    ]
