from __future__ import annotations

from collections import Counter

import pytest

from highwater.spark.replay.cycles import DAY_MS, HOUR_MS, cycle, period_ms, scaled, starting_at
from highwater.spark.replay.sample import LogLine, read_sample

START_MS = 1_431_820_800_000  # Midnight.


def sample() -> tuple[LogLine, ...]:
    """Two days; hours 0, 1 and 30 with 30, 5 and 10 lines."""
    texts = [
        f'h{number} - - [{17 + hour // 24}/May/2015:{hour % 24:02}:05:{number:02} +0000] "GET /{hour}/{number} HTTP/1.1" 200 1 "-" "-"'
        for hour, lines in ((0, 30), (1, 5), (30, 10))
        for number in range(lines)
    ]
    return read_sample(texts, "sample")


def test_the_period_is_whole_days():
    assert period_ms(sample()) == 2 * DAY_MS
    assert period_ms(sample()[:1]) == DAY_MS


def test_the_first_cycle_is_the_sample():
    assert tuple(cycle(sample(), 0, 1)) == sample()


def test_later_cycles_have_the_same_hours_on_new_days():
    later = list(cycle(sample(), 3, 1))
    hours = Counter((line.time_ms - 6 * DAY_MS - START_MS) // HOUR_MS for line in later)
    assert hours == {0: 30, 1: 5, 30: 10}
    assert [line.time_ms for line in later] == sorted(line.time_ms for line in later)
    # Each is a line of its hour in the sample, at that line's time of day.
    origins = {(line.time_ms, line.text.partition("GET ")[2]) for line in sample()}
    assert {
        (line.time_ms - 6 * DAY_MS, line.text.partition("GET ")[2]) for line in later
    } <= origins
    assert "23/May/2015:00:05" in later[0].text


def test_equal_seeds_give_equal_logs_and_others_do_not():
    one, same, other = (list(cycle(sample(), 2, seed)) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert [line.text.split('"')[1] for line in one] != [
        line.text.split('"')[1] for line in cycle(sample(), 1, 1)
    ]


@pytest.mark.parametrize("size_bytes", [0, 1, 1000, 50_000])
def test_a_log_of_a_size_is_a_prefix_that_fits(size_bytes: int):
    longest = list(scaled(sample(), size_bytes=60_000, seed=5))
    found = list(scaled(sample(), size_bytes=size_bytes, seed=5))
    assert found == longest[: len(found)]
    sent = sum(len(line.value) for line in found)
    assert sent <= size_bytes < sent + len(longest[len(found)].value)


def test_moved_to_another_start():
    moved = list(starting_at(iter(sample()), sample()[0].time_ms, 1_000_000))
    assert moved[0].time_ms == 1_000_000
    assert moved[-1].time_ms - moved[0].time_ms == sample()[-1].time_ms - sample()[0].time_ms
    assert "01/Jan/1970:00:16:40" in moved[0].text
