"""What a job tells in its log, and two workers beside one."""

from __future__ import annotations

import pytest

from tests.bench.spark_comparison import Comparison, Series
from tests.bench.spark_load import Told
from tests.bench.spark_scaling import JobFailed, speed_ups, told


def comparison(row: str, *values: tuple[str, float]) -> Comparison:
    series = [Series(name=name, version="", values=(value,)) for name, value in values]
    beside = series[1] if len(series) > 1 else None
    return Comparison(row=row, unit="rows/s", ours=series[0], beside=beside)


def test_the_result_is_the_last_line_of_json() -> None:
    log = '{"a": 1}\nnoise\n{"version": 0, "records": 7, "seconds": 1.5}\n26/11/27 INFO the end\n'
    assert told(log) == Told(records=7, seconds=1.5)
    with pytest.raises(JobFailed, match="no result"):
        told('{"a": 1}\nnoise\n')


def test_two_workers_are_compared_with_one_at_the_same_broker() -> None:
    one = comparison("workers/1", ("combined", 10.0), ("kafka", 20.0))
    two = comparison("workers/2", ("combined", 15.0), ("kafka", 40.0))
    found = speed_ups("workers/2 to 1", one, two)
    assert [(each.ours.name, each.ratio) for each in found] == [
        ("combined, 2 workers", 1.5),
        ("kafka, 2 workers", 2.0),
    ]
    alone = comparison("workers/1", ("combined", 10.0))
    assert len(speed_ups("x", alone, comparison("workers/2", ("combined", 15.0)))) == 1
