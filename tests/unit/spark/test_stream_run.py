"""The run of a query that is none: how it stops, fails and tells; tests/spark runs real ones."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.errors import StreamingQueryException

from highwater.spark import stream_run as module
from highwater.spark.stream_progress import StreamProgress
from highwater.spark.stream_run import RunOptions, StreamRun, run_together


class FakeRows:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def persist(self):
        self.calls.append("persist")
        return self

    def count(self) -> int:
        self.calls.append("count")
        return 0

    def unpersist(self) -> None:
        self.calls.append("unpersist")

    @property
    def sparkSession(self):
        self.calls.append("log")
        return MagicMock()


class FakeQuery:
    """Also its own writer. Each wait is one `turn`, which may end it or raise."""

    def __init__(self, turns: list[Any]) -> None:
        self.turns = turns
        self.isActive = True
        self.recentProgress: list[Any] = []
        self.trigger_active = False
        self.stopped = 0
        self.set: dict[str, Any] = {}
        self.failure: Exception | None = None

    def queryName(self, name):
        self.set["name"] = name
        return self

    def option(self, name, value):
        self.set[name] = value
        return self

    def outputMode(self, mode):
        self.set["mode"] = mode
        return self

    def foreachBatch(self, function):
        self.batch = function
        return self

    def trigger(self, **kind):
        self.set["trigger"] = kind
        return self

    def start(self):
        return self

    def awaitTermination(self, timeout_s) -> None:
        turn = self.turns.pop(0) if self.turns else "end"
        if turn == "end":
            self.isActive = False
        elif turn in {"batch begins", "batch ends"}:
            self.trigger_active = turn == "batch begins"
        elif callable(turn):
            turn(self)

    @property
    def status(self):
        return {"isTriggerActive": self.trigger_active}

    def stop(self) -> None:
        self.stopped += 1
        self.isActive = False

    def exception(self):
        return self.failure


def progress(batch: int, records: int) -> SimpleNamespace:
    return SimpleNamespace(
        json=json.dumps(
            {
                "batchId": batch,
                "numInputRows": records,
                "sources": [{}],
                "durationMs": {"addBatch": 1} if records else {},
            }
        )
    )


def run(
    query: FakeQuery, *, once: bool = False, every_s: float = 10, **more: Any
) -> list[StreamProgress]:
    told: list[StreamProgress] = []
    options = RunOptions(
        name="watch", checkpoint="place", once=once, every_s=every_s, output_mode="append"
    )
    arguments = {"stopping": lambda: False, "sink": lambda rows, number: None} | more
    sink = arguments.pop("sink")
    StreamRun(options, sink, tell=told.append, **arguments).run(SimpleNamespace(writeStream=query))
    return told


@pytest.mark.parametrize(
    ("once", "trigger"),
    [(True, {"availableNow": True}), (False, {"processingTime": "10000 milliseconds"})],
)
def test_how_the_query_is_set_up(once: bool, trigger: dict[str, object]):
    query = FakeQuery([])
    run(query, once=once)
    assert query.set == {
        "name": "watch", "checkpointLocation": "place", "mode": "append", "trigger": trigger,
    }  # fmt: skip
    assert query.stopped == 1


def test_every_batch_is_computed_once_before_the_sink_has_it():
    query, rows, seen = FakeQuery([]), FakeRows(), []
    run(query, sink=lambda rows, number: seen.append((list(rows.calls), number)))
    query.batch(rows, 3)
    assert seen == [(["persist", "count"], 3)]
    assert rows.calls == ["persist", "count", "unpersist"]


def test_the_sinks_own_error_is_raised_not_sparks_text_of_it():
    def sink(rows, number) -> None:
        raise OSError("disk full")

    def fails(query: FakeQuery) -> None:
        try:
            query.batch(FakeRows(), 0)
        except OSError:
            query.isActive = False
            raise StreamingQueryException("[STREAM_FAILED] py4j ...") from None

    query = FakeQuery([fails])
    with pytest.raises(OSError, match="disk full"):
        run(query, sink=sink)
    assert query.stopped == 1


def test_a_query_that_ended_between_two_looks_has_failed():
    query = FakeQuery([])
    query.failure = StreamingQueryException("gone")
    with pytest.raises(StreamingQueryException, match="gone"):
        run(query)


def test_a_stop_waits_for_the_batch_under_way():
    query = FakeQuery(["batch begins", "nothing", "batch ends", "never"])
    asked = iter([False, True, True, True, True])
    run(query, stopping=lambda: next(asked))
    assert query.turns == ["never"]
    assert query.stopped == 1


def test_a_stop_ends_a_query_without_pauses_between_two_batches():
    """Its triggers follow each other so closely that none is seen to have ended."""
    asked, seen = [False], []

    def first(query: FakeQuery) -> None:
        query.trigger_active = True
        query.batch(FakeRows(), 0)
        asked[0] = True

    def second(query: FakeQuery) -> None:
        rows = FakeRows()
        try:
            query.batch(rows, 1)
        except module._Refused:
            assert rows.calls == ["log"], "nothing of it was computed"
            query.failure = StreamingQueryException("[STREAM_FAILED] py4j ...")
            query.isActive = False
            raise query.failure from None

    query = FakeQuery([first, second, "never"])
    run(query, stopping=lambda: asked[0], sink=lambda rows, number: seen.append(number))
    assert seen == [0]
    assert query.turns == ["never"]


def test_a_batch_that_fails_while_the_query_is_to_stop_is_told():
    asked = [False]

    def sink(rows, number) -> None:
        asked[0] = True
        raise OSError("disk full")

    def fails(query: FakeQuery) -> None:
        with pytest.raises(OSError, match="disk full"):
            query.batch(FakeRows(), 0)
        query.failure = StreamingQueryException("[STREAM_FAILED] py4j ...")
        query.isActive = False

    with pytest.raises(OSError, match="disk full"):
        run(FakeQuery([fails]), sink=sink, stopping=lambda: asked[0])


def test_what_the_check_raises_ends_the_query_before_the_sink_has_the_batch():
    rows = FakeRows()

    def check() -> None:
        assert rows.calls == ["persist", "count"]
        raise OSError("another topic")

    def batch(query: FakeQuery) -> None:
        query.batch(rows, 0)

    with pytest.raises(OSError, match="another topic"):
        run(FakeQuery([batch]), check=check, sink=lambda *_: pytest.fail("has it"))
    assert rows.calls[-1] == "unpersist"


def test_a_stop_gives_a_hanging_batch_up(monkeypatch: pytest.MonkeyPatch):
    times = iter(range(0, 100_000, 7))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    query = FakeQuery(["nothing"] * 1000)
    query.trigger_active = True
    run(query, stopping=lambda: True)
    assert query.stopped == 1
    assert len(query.turns) > 900


def test_progress_is_told_once_a_batch():
    first, nothing, second = progress(0, 10), progress(1, 0), progress(1, 5)

    def look(*reports: SimpleNamespace):
        return lambda query: setattr(query, "recentProgress", list(reports))

    query = FakeQuery([look(first), look(first, nothing), look(first, nothing, second)])
    assert [(each.batch, each.records) for each in run(query)] == [(0, 10), (1, 5)]


def test_idle_time_begins_with_the_end_of_the_last_batch(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    idle: list[float] = []

    def wait(seconds: float, *, batch: bool = False):
        def turn(query: FakeQuery) -> None:
            now[0] += seconds
            if batch:
                query.batch(FakeRows(), 0)

        return turn

    query = FakeQuery([wait(5), wait(3), wait(60, batch=True), wait(2)])
    run(query, every_s=0, idle=idle.append, sink=lambda rows, number: query_looks(query, idle))
    assert idle[:4] == [5, 8, 0, 2]


def test_records_that_wait_for_the_next_trigger_are_no_silence(monkeypatch: pytest.MonkeyPatch):
    now, idle = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

    def at(seconds: float):
        return lambda _: now.__setitem__(0, seconds)

    # Between two triggers, 20 minutes apart; behind the second one only what lies before it is known.
    run(FakeQuery([at(0), at(700), at(1199), at(1900)]), every_s=1200, idle=idle.append)
    assert idle[:4] == [0, 0, 0, 700]


def test_a_trigger_that_waits_for_brokers_is_no_silence():
    query = FakeQuery(["nothing"] * 3)
    query.trigger_active = True
    run(query, every_s=0, idle=lambda _: pytest.fail("idle"))


def query_looks(query: FakeQuery, idle: list[float]) -> None:
    """While a batch is under way nothing is idle, however long it takes."""
    run_of_query = query.batch.__self__
    before = list(idle)
    run_of_query.look()
    assert idle == before


def two(first: FakeQuery, second: FakeQuery, stopping=lambda: False) -> None:
    runs = []
    for query in (first, second):
        options = RunOptions(
            name="watch", checkpoint="place", once=True, every_s=0, output_mode="append"
        )
        one = StreamRun(options, lambda rows, number: None, stopping=stopping, tell=lambda _: None)
        runs.append((one, SimpleNamespace(writeStream=query)))
    run_together(runs, stopping=stopping)


def test_two_queries_run_until_both_have_ended():
    first, second = FakeQuery(["nothing", "end"]), FakeQuery(["nothing", "nothing", "end"])
    two(first, second)
    assert (first.turns, second.turns) == ([], [])
    assert (first.stopped, second.stopped) == (1, 1)


def test_one_that_fails_ends_the_other():
    def fails(_: FakeQuery) -> None:
        second.failure = StreamingQueryException("gone")
        second.isActive = False

    first, second = FakeQuery([fails, "nothing", "never"]), FakeQuery([])
    with pytest.raises(StreamingQueryException, match="gone"):
        two(first, second)
    assert first.turns == ["nothing", "never"]
    assert (first.stopped, second.stopped) == (1, 1)


def test_one_that_cannot_start_ends_the_other():
    first, second = FakeQuery([]), FakeQuery([])
    second.start = lambda: pytest.fail("no start")
    with pytest.raises(pytest.fail.Exception, match="no start"):
        two(first, second)
    assert (first.stopped, second.stopped) == (1, 0)


def test_a_stop_waits_for_the_batches_of_both():
    first, second = FakeQuery(["nothing", "batch ends"]), FakeQuery(["batch ends", "never"])
    first.trigger_active = second.trigger_active = True
    asked = iter([False, *[True] * 20])
    two(first, second, stopping=lambda: next(asked))
    assert (first.turns, second.turns) == ([], ["never"])
