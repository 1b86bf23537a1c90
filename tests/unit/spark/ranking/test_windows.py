"""Options of windows; tests/spark counts and ranks in Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.ranking.windows import RankingOptions


def options(window_s: int, slide_s: int) -> RankingOptions:
    return RankingOptions(window_s=window_s, slide_s=slide_s, late_s=1, top=1, items="^/")


def test_windows_overlap_or_touch():
    assert options(60, 20).slide_s == 20
    assert options(60, 60).slide_s == 60


def test_windows_with_gaps_are_refused():
    with pytest.raises(UsageError, match="windows of 60 s every 61 s leave gaps between them"):
        options(60, 61)
