"""Steps of a chart over time: few enough to be seen, and everything is in one of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from highwater.spark.page.time_steps import SECONDS_MAX, STEPS_MAX, cover

HOUR_S = 3600
DAY_S = 86_400


@pytest.mark.parametrize(
    ("seconds", "least_s", "text", "count"),
    [
        ([60], 60, "minute", 1),
        ([0, 299 * 60], 60, "minute", 300),
        ([0, 300 * 60], 60, "2 minutes", 151),
        ([0, DAY_S], 60, "5 minutes", 289),
        ([0, DAY_S], HOUR_S, "hour", 25),
        ([0, 30 * DAY_S], HOUR_S, "3 hours", 241),
        ([0, 250 * DAY_S], HOUR_S, "day", 251),
    ],
)
def test_the_shortest_step_that_is_not_too_short(
    seconds: list[int], least_s: int, text: str, count: int
):
    steps = cover(seconds, least_s=least_s)
    assert (steps.text, len(steps.starts)) == (text, count)


@pytest.mark.parametrize("last_s", [1, 7 * DAY_S, 400 * 365 * DAY_S, SECONDS_MAX])
def test_every_time_is_in_a_step_that_is_a_time_too(last_s: int):
    steps = cover([5, last_s], least_s=60)
    assert len(steps.starts) <= STEPS_MAX
    for second in (5, last_s):
        assert steps.start_of(second) in steps.starts
        assert 0 <= second - steps.start_of(second) < steps.step_s
    assert steps.times[-1] + steps.width > datetime.fromtimestamp(last_s, UTC)


def test_nothing_to_cover():
    steps = cover([], least_s=HOUR_S)
    assert (steps.times, steps.text, steps.width) == ([], "hour", timedelta(hours=1))
