"""The alarms' table with a table and a topic that are none; tests/spark kills the job."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables import Committed
from highwater.spark.topic_sink import TopicSink
from highwater.spark.watch import alarm_log as module
from highwater.spark.watch.alarm_log import AlarmLog
from highwater.spark.watch.minute import Metric, Minute
from highwater.spark.watch.rules import Absence, Rule, Threshold

RULES: tuple[Rule, ...] = (
    Threshold(name="busy", metric=Metric.REQUESTS, above=10),
    Absence(name="silence", minutes=2),
)
SINK = TopicSink(bootstrap="b:1", topic="alarms")


class FakeTable:
    def __init__(self) -> None:
        self.commits: list[tuple[int, str, list]] = []
        self.broken = False

    def committed(self, writer: str) -> Committed | None:
        assert writer == "w"
        if not self.commits:
            return None
        version, note, _ = self.commits[-1]
        return Committed(version=version, note=note)

    def commit(self, rows, *, writer, version, note, replace=None):
        if self.broken:
            raise OSError("killed")
        assert not self.commits or version > self.commits[-1][0]
        self.commits.append((version, note, rows))
        return True


class Fixture:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = FakeTable()
        self.sent: list[tuple[str, str | None]] = []
        self.spark = MagicMock()
        self.spark.createDataFrame = lambda rows, _: rows
        monkeypatch.setattr(module, "send_pairs", lambda _, pairs, __: self.sent.extend(pairs))

    def open(self) -> AlarmLog:
        return AlarmLog(self.spark, self.table, "w", RULES, SINK)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Fixture:
    return Fixture(monkeypatch)


def minute(number: int, requests: int) -> Minute:
    return Minute(start_s=60 * number, requests=requests)


def test_changes_are_rows_and_records(made: Fixture):
    log = made.open()
    assert [each.rule for each in log.add([minute(0, 11)], 0)] == ["busy"]
    (commit,) = made.table.commits
    assert commit[2][0][:2] == ("busy", "begin")
    assert [type(value) for value in commit[2][0][4:]] == [float, float]
    assert [key for key, _ in made.sent] == ["busy"]


def test_a_batch_that_comes_again_changes_nothing(made: Fixture):
    made.open().add([minute(0, 11)], 0)
    log = made.open()
    assert log.add([minute(0, 11)], 0) == []
    assert len(made.table.commits) == len(made.sent) == 1
    assert [each.begins for each in log.add([minute(1, 1)], 1)] == [False]


def test_killed_before_the_commit_the_same_changes_come_again(made: Fixture):
    made.table.broken = True
    with pytest.raises(OSError, match="killed"):
        made.open().add([minute(0, 11)], 0)
    made.table.broken = False
    made.open().add([minute(0, 11)], 0)
    first, second = made.sent
    assert first == second
    assert len(made.table.commits) == 1


def test_the_clock_begins_absences_between_batches(made: Fixture):
    log = made.open()
    assert log.tick(1e9) == []
    log.add([minute(0, 1)], 0)
    assert log.tick(179) == []
    assert [each.rule for each in log.tick(181)] == ["silence"]
    assert log.tick(500) == []
    # Also when the job starts again: the batch of the note stays the same.
    again = made.open()
    assert again.add([minute(0, 1)], 0) == []
    assert [each.begins for each in again.add([minute(9, 1)], 1)] == [False]
    assert [version for version, _, _ in made.table.commits] == [0, 1, 2]


def test_the_clock_counts_from_the_newest_request_and_not_from_the_last_closed_minute(
    made: Fixture,
):
    log = made.open()
    log.saw(300)
    log.add([minute(0, 1)], 0)
    log.saw(299)
    assert log.tick(179) == []
    (change,) = log.tick(180)
    assert (change.begins, change.at_s) == (True, 480)
    assert log.add([minute(number, 1) for number in range(1, 6)], 1) == []
    assert [each.begins for each in log.add([minute(12, 1)], 2)] == [False]


def test_a_job_that_is_started_again_counts_from_the_same_request(made: Fixture):
    log = made.open()
    log.add([minute(0, 1)], 0)
    log.saw(300)
    # Nobody needs to know while records come.
    assert log.tick(module.NOTE_AFTER_S - 1) == []
    assert len(made.table.commits) == 1
    assert log.tick(module.NOTE_AFTER_S) == log.tick(module.NOTE_AFTER_S + 1) == []
    assert len(made.table.commits) == 2
    again = made.open()
    assert again.tick(179) == []
    assert [each.at_s for each in again.tick(180)] == [480]
