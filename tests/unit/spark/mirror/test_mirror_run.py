"""Rounds of several sources: which errors end a mirror, and when it looks again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import UsageError
from highwater.spark.mirror.clients import Failure, MirrorFailed, MirrorTakenOver, Trouble
from highwater.spark.mirror.mirror_run import ROUNDS_FAILED_MAX, MirrorRun, Telling
from highwater.spark.topic_admin import ClusterAway

IDLE = "idle"
BUSY = "busy"
AWAY = Failure(trouble=Trouble.AWAY, text="away")


class FakeRun:
    """Does what `turns` say, then is idle."""

    def __init__(self, alias: str, turns: list[Any]) -> None:
        self.source = SimpleNamespace(alias=alias)
        self.turns = turns
        self.rounds = 0

    def round(self) -> Any:
        self.rounds += 1
        turn = self.turns.pop(0) if self.turns else IDLE
        if isinstance(turn, Exception):
            raise turn
        failures = turn if isinstance(turn, tuple) else ()
        return SimpleNamespace(
            progress=f"{self.source.alias} {self.rounds}",
            gone=("some",) if turn == "gone" else (),
            is_idle=turn == IDLE,
            failures=failures,
        )


class Told:
    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.progress: list[Any] = []
        self.gone: list[Any] = []

    def telling(self) -> Telling:
        return Telling(
            sentence=self.sentences.append, progress=self.progress.append, gone=self.gone.extend
        )


@pytest.fixture
def told() -> Told:
    return Told()


def mirror(told: Told, *runs: FakeRun, looks: int = 1000) -> MirrorRun:
    """A mirror that is asked to end after so many looks; its clock is that of its sleeps."""
    left = iter(range(looks))
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    return MirrorRun(
        runs,
        stopping=lambda: next(left, None) is None,
        telling=told.telling(),
        now=lambda: clock[0],
        sleep=sleep,
    )


def test_once_goes_on_until_nothing_is_left(told: Told):
    one, other = FakeRun("a", [BUSY, BUSY]), FakeRun("b", [])
    run = mirror(told, one, other)
    run.run_once()
    assert (one.rounds, other.rounds) == (3, 1)
    assert told.progress == ["a 1", "a 2", "a 3", "b 1"]
    assert not run.are_gone


def test_once_other_sources_are_done_before_an_error_ends_it(told: Told):
    runs = [
        FakeRun("a", [ClusterAway("first")]),
        FakeRun("b", [UsageError("second")]),
        FakeRun("c", [BUSY]),
    ]
    with pytest.raises(ClusterAway, match="first"):
        mirror(told, *runs).run_once()
    assert runs[2].rounds == 2
    assert told.sentences == ["b: second"]


def test_what_is_gone_is_remembered(told: Told):
    run = mirror(told, FakeRun("a", ["gone"]))
    run.run_once()
    assert run.are_gone


def test_the_worst_failure_of_a_round_is_raised_and_all_are_told(told: Told):
    refused = Failure(trouble=Trouble.REFUSED, text="too large")
    with pytest.raises(UsageError, match="too large"):
        mirror(told, FakeRun("a", [(refused, AWAY)])).run_once()
    assert told.progress == ["a 1"]
    assert told.sentences == ["away"]


def test_a_signal_ends_it(told: Told):
    source = FakeRun("a", [BUSY] * 100)
    mirror(told, source, looks=6).run(1)
    assert source.rounds == 3
    mirror(told, source, looks=0).run_once()
    assert source.rounds == 3


def test_rounds_without_work_wait_and_say_nothing(told: Told):
    source = FakeRun("a", [BUSY, IDLE, IDLE])
    # A look for every sleep of a fifth of a second.
    mirror(told, source, looks=30).run(1)
    assert 4 <= source.rounds <= 6
    assert told.progress == ["a 1"]


@pytest.mark.parametrize("error", [ClusterAway("away"), MirrorFailed("failed")])
def test_what_may_pass_is_told_and_tried_again(told: Told, error: Exception):
    source, other = FakeRun("a", [error, BUSY]), FakeRun("b", [])
    mirror(told, source, other, looks=30).run(1)
    assert told.sentences == [f"a: {error}"]
    assert told.progress == ["a 2"]
    assert other.rounds >= 2


def test_what_does_not_pass_ends_it(told: Told):
    source = FakeRun("a", [ClusterAway(f"away {number}") for number in range(ROUNDS_FAILED_MAX)])
    with pytest.raises(ClusterAway):
        mirror(told, source, looks=10_000).run(1)
    assert source.rounds == ROUNDS_FAILED_MAX
    for error in (MirrorTakenOver("taken over"), UsageError("wrong")):
        with pytest.raises(type(error)):
            mirror(told, FakeRun("a", [error])).run(1)
