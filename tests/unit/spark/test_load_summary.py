"""What is in tables that are not there; tests/spark counts real ones."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark import load_summary as module
from highwater.spark.load_run import LoadRequest
from highwater.spark.load_summary import LoadSummary, summarize
from highwater.spark.topic_range import ReadOptions
from highwater.spark.value_format import FormatName, ValueFormat


@pytest.mark.parametrize(
    ("name", "opened"), [(FormatName.RAW, ["/t"]), (FormatName.TEXT, ["/t", "/t_quarantine"])]
)
def test_before_the_first_commit(
    name: FormatName, opened: list[str], monkeypatch: pytest.MonkeyPatch
):
    paths: list[str] = []

    def open_table(spark, table_format, path):
        paths.append(path)
        return SimpleNamespace(exists=lambda: False)

    monkeypatch.setattr(module, "open_table", open_table)
    request = LoadRequest(
        topics=("t",), pattern=None, table="/t", table_format="delta",
        value_format=ValueFormat(name=name), read=ReadOptions(bootstrap="h:1"),
    )  # fmt: skip
    assert summarize(None, request) == LoadSummary(
        rows=0, bad_rows=0, hours=(), bad_hours=(), complaints=(), newest_bad=()
    )
    assert paths == opened
