from __future__ import annotations

import pytest

from highwater.spark.replay.pace import Pace, parse_size, parse_speed


def test_waits_are_a_fraction_of_the_logs_own():
    pace = Pace(first_ms=1000, speed=100.0)
    assert pace.wait_s(1000, 0.0) == 0
    assert pace.wait_s(201_000, 0.5) == pytest.approx(1.5)
    assert pace.wait_s(201_000, 2.5) == 0


def test_no_speed_means_no_waits():
    assert Pace(first_ms=0, speed=None).wait_s(10**12, 0.0) == 0


@pytest.mark.parametrize(
    ("text", "speed"), [("x100", 100.0), ("x0.5", 0.5), ("1000", 1000.0), ("max", None)]
)
def test_speeds(text: str, speed: float | None):
    assert parse_speed(text) == speed


@pytest.mark.parametrize("text", ["", "x", "x0", "-1", "xinf", "xnan", "fast"])
def test_no_speeds(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_speed(text)


@pytest.mark.parametrize(
    ("text", "size"), [("10G", 10 << 30), ("512m", 512 << 20), ("1K", 1024), ("1000", 1000)]
)
def test_sizes(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "0", "-1K", "10T", "1.5G"])
def test_no_sizes(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_size(text)
