"""The heartbeats' thread watches the loop: a late loop is slow, a silent one hangs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater.metadata.loop_watch import LOOP_SILENT_MS_MAX, LoopWatch


class Loop:
    """Runs posted callbacks when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.posted: list[Callable[[], None]] = []
        self.returns = 0
        self.watch = LoopWatch(
            self.posted.append, monotonic_ms=lambda: self.now_ms, on_return=self._returned
        )

    def _returned(self) -> None:
        self.returns += 1

    def run(self) -> None:
        posted, self.posted[:] = list(self.posted), []
        for callback in posted:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_loop_that_answers_is_asked_again_and_again(loop: Loop) -> None:
    for _ in range(3):
        assert loop.watch.runs()
        assert len(loop.posted) == 1
        loop.run()
        loop.now_ms += 60_000
    assert loop.returns == 0, "it was never given up"


def test_a_loop_counts_as_hanging_after_the_limit_until_it_runs(loop: Loop) -> None:
    assert loop.watch.runs()
    loop.now_ms += LOOP_SILENT_MS_MAX - 1
    assert loop.watch.runs(), "slow, not dead"
    assert len(loop.posted) == 1, "one question at a time"
    loop.now_ms += 1
    assert not loop.watch.runs()
    loop.now_ms += 3_600_000
    assert not loop.watch.runs()
    loop.run()
    assert loop.returns == 1, "the thread is told, and need not wait for its next turn"
    assert loop.watch.runs()


def test_a_paused_process_is_not_a_hanging_loop(loop: Loop) -> None:
    """The check before the pause is answered, so that the first heartbeat afterwards is sent."""
    assert loop.watch.runs()
    loop.run()
    loop.now_ms += 3_600_000
    assert loop.watch.runs()


def test_a_process_paused_between_check_and_answer(loop: Loop) -> None:
    assert loop.watch.runs()
    loop.now_ms += 3_600_000
    assert not loop.watch.runs()
    loop.run()
    assert (loop.watch.runs(), loop.returns) == (True, 1)
