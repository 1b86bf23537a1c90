"""The function that Spark calls, with a state that is none; tests/spark runs it in Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

import pandas as pd

from highwater.spark.crawlers.detection import step_of
from highwater.spark.crawlers.sessions import Limits

STEP = step_of(Limits(requests=3, within_ms=100, gap_ms=1000))


class FakeState:
    """As Spark's GroupState, for one key."""

    def __init__(self) -> None:
        self.row = None
        self.timeout_ms = None
        self.watermark_ms = 0
        self.hasTimedOut = False

    @property
    def exists(self) -> bool:
        return self.row is not None

    @property
    def get(self):
        return self.row

    def update(self, row) -> None:
        self.row = row

    def remove(self) -> None:
        self.row = None

    def getCurrentWatermarkMs(self) -> int:
        return self.watermark_ms

    def setTimeoutTimestamp(self, time_ms: int) -> None:
        assert time_ms > self.watermark_ms, "Spark refuses it"
        self.timeout_ms = time_ms


def run(state: FakeState, *frames: list[int]) -> list[tuple]:
    given = iter([pd.DataFrame({"time_ms": frame}) for frame in frames])
    return [
        row
        for frame in STEP(("c",), given, state)
        for row in frame.itertuples(index=False, name=None)
    ]


def test_requests_are_taken_in_the_order_of_time_over_all_frames():
    state = FakeState()
    assert run(state, [100, 0], [50]) == [("c", 0, True, 100, 0, 3)]
    assert state.timeout_ms == 1100
    assert all(type(value) is int for value in state.row[:4])


def test_the_session_goes_on_in_the_next_batch():
    state = FakeState()
    assert run(state, [0, 50]) == []
    assert run(state, [60, 5000]) == [
        ("c", 0, True, 60, 0, 3),
        ("c", 1, False, 1060, 0, 3),
    ]


def test_when_the_time_is_up_the_session_ends():
    state = FakeState()
    run(state, [0, 1, 2])
    state.hasTimedOut = True
    assert run(state) == [("c", 0, False, 1002, 0, 3)]
    assert state.row is None


def test_a_quiet_session_ends_without_a_row():
    state = FakeState()
    run(state, [0])
    state.hasTimedOut = True
    assert run(state) == []
    assert state.row is None


def test_a_time_behind_the_watermark_is_not_given_to_spark():
    state = FakeState()
    state.watermark_ms = 10_000
    run(state, [0])
    assert state.timeout_ms == 10_001
