"""The report for a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.audit_run import AuditResult, GroupDifference, OffsetDifference, OutsideRows
from highwater.spark.jobs.audit import lines
from highwater.spark.load_plan import Gone


def test_every_difference_has_a_line() -> None:
    result = AuditResult(
        records=7,
        groups=2,
        different=(
            GroupDifference(topic="t", topic_id="id", partition=0, hour=3600, in_log=4, in_table=3),
        ),
        offsets=(OffsetDifference(topic="t", partition=0, offset=9, what="missing"),),
        uncompared=(Gone(topic="t", partition=1, start=0, end=5),),
    )
    assert lines(result) == [
        "t-1: offsets 0 to 5 are no longer in the log, not compared",
        "t-0, hour 1970-01-01 01: 4 in the log, 3 in the table",
        "t-0, offset 9: missing",
        "7 records in 2 hours of partitions compared: 1 differ.",
    ]


def test_no_difference() -> None:
    result = AuditResult(records=7, groups=2, different=(), offsets=(), uncompared=())
    assert lines(result) == ["7 records in 2 hours of partitions compared: all equal."]


def test_rows_of_no_load_are_a_difference() -> None:
    rows = OutsideRows(topic="t", topic_id="id", partition=3, rows=2, is_older=False)
    older = replace(rows, topic_id="old", is_older=True)
    result = AuditResult(
        records=7, groups=2, different=(), offsets=(), uncompared=(), outside=(rows, older)
    )
    assert not result.is_equal
    assert replace(result, outside=(older,)).is_equal
    assert lines(result) == [
        "t-3: 2 rows with topic id id are of no load",
        "t-3: 2 rows with topic id old are of an older topic of this name, not compared",
        "7 records in 2 hours of partitions compared: all equal, and 2 rows are of no load.",
    ]
