"""Intervals, and turns at fixed times."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.schedule import IntervalUnusable, repeat, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86_400)]
)
def test_intervals(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "0m", "-1m", "1.5h", "10 m"])
def test_no_intervals(text: str) -> None:
    with pytest.raises(IntervalUnusable, match="10m"):
        seconds_of(text)


def test_turns_begin_at_fixed_times_and_late_ones_are_left_out() -> None:
    clock = 0.0
    begun: list[float] = []
    lasts = iter([3, 25, 10])

    class Over(Exception):
        pass

    def turn() -> None:
        nonlocal clock
        begun.append(clock)
        last = next(lasts, None)
        if last is None:
            raise Over
        clock += last

    def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds

    with pytest.raises(Over):
        repeat(turn, 10, now=lambda: clock, sleep=sleep)
    assert begun == [0, 10, 40, 50]
