"""Rates, measured with a clock that only sleeping advances."""

import pytest

from highwater.partition.storage.cleaning.pace import SLEEP_S_MAX, Pace


class Sleeper:
    """Time passes during sleeps, or when the test sets it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []
        self.signs = 0

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    def alive(self) -> None:
        self.signs += 1

    def pace(self, bytes_per_s: int) -> Pace:
        return Pace(bytes_per_s, alive=self.alive, now=lambda: self.now, sleep=self.sleep)


def test_without_a_limit_nobody_sleeps() -> None:
    sleeper = Sleeper()
    pace = sleeper.pace(0)
    for _ in range(10):
        pace.passed(1 << 30)
    assert sleeper.sleeps == []


def test_bytes_take_their_time() -> None:
    sleeper = Sleeper()
    pace = sleeper.pace(1_000)
    for _ in range(10):
        pace.passed(500)
    assert sleeper.now - 100 == pytest.approx(5.0)
    sleeper.now += 0.8  # Other work took longer than these bytes should take.
    pace.passed(800)
    assert len(sleeper.sleeps) == 10
    pace.passed(2_000)
    assert sleeper.now - 100 == pytest.approx(7.8)


def test_unused_time_is_saved_up_for_a_second_only() -> None:
    sleeper = Sleeper()
    pace = sleeper.pace(1_000)
    sleeper.now += 3600  # As while the node swaps segments, or a disk hangs.
    pace.passed(1_000)
    assert sleeper.sleeps == []
    began = sleeper.now
    for _ in range(10):
        pace.passed(500)
    assert sleeper.now - began == pytest.approx(5.0)


def test_a_long_sleep_shows_signs_of_life() -> None:
    sleeper = Sleeper()
    sleeper.pace(1_000).passed(3_500)
    assert max(sleeper.sleeps) <= SLEEP_S_MAX
    assert sleeper.signs == len(sleeper.sleeps) == 4
