"""Steps of rates, and when lag counts as growing."""

from __future__ import annotations

import pytest

from tests.bench.spark_steady import NeverSteady, climb, is_steady, rate_of


def test_steps_are_the_same_up_and_down() -> None:
    assert [rate_of(step, 1000) for step in (-1, 0, 1, 2)] == [800, 1000, 1250, 1562]
    assert rate_of(-100, 1000) == 1


def test_lag_that_goes_up_and_down_with_batches_is_steady() -> None:
    assert is_steady([0, 500, 1000, 500, 1000, 500, 1000, 500, 1000], rate=500, seconds=9)


def test_lag_of_the_first_third_is_for_warming_up() -> None:
    assert is_steady([0, 3000, 6000, 6000, 5000, 4000, 3000, 2000, 1000], rate=500, seconds=9)


def test_lag_grows_if_more_than_a_tenth_of_what_comes_stays_behind() -> None:
    # 1500 records come in a third of the time.
    assert is_steady([0, 0, 0, 100, 100, 100, 100, 100, 250], rate=500, seconds=9)
    assert not is_steady([0, 0, 0, 100, 100, 100, 100, 100, 251], rate=500, seconds=9)
    with pytest.raises(ValueError, match="too few"):
        is_steady([1, 2], rate=500, seconds=9)


def test_the_climb_ends_below_the_first_step_that_is_too_much() -> None:
    asked: list[int] = []

    def below(limit: int) -> int:
        asked.clear()

        def is_steady_at(step: int) -> bool:
            asked.append(step)
            return step < limit

        return climb(0, is_steady_at, top=10)

    assert below(3) == 2
    assert asked == [0, 1, 2, 3]
    assert below(-1) == -2
    assert asked == [0, -1, -2]
    assert below(100) == 10
    with pytest.raises(NeverSteady):
        below(-100)
