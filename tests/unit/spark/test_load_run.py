"""What surrounds a load: offers, lag, and what is told again; tests/spark loads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark import load_run as module
from highwater.spark.brokers import BrokersRefuse, TopicChanged, TopicPartition, TopicState
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.load_plan import Offered
from highwater.spark.load_run import LoadRequest, LoadRun, lags, offers_of, quarantine_writer
from highwater.spark.tables import Committed
from highwater.spark.tables.port import CommitNoteGone, TableConflict
from highwater.spark.topic_range import ReadOptions
from highwater.spark.value_format import FormatName, ValueFormat


class FakeBrokers:
    """Retention takes records between the two questions."""

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: 5 + each.partition for each in partitions}

    def latest(
        self, partitions: list[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 6 if read_committed else 9)

    def changed(self, topics: dict[str, TopicState]) -> list[str]:
        return [name for name, topic in topics.items() if topic.topic_id == "former"]


def test_no_end_lies_before_its_start() -> None:
    topics = {"t": TopicState("id", 3)}
    found = offers_of(FakeBrokers(), topics)
    assert found == {"t": Offered(topic_id="id", bounds={0: (5, 6), 1: (6, 6), 2: (7, 7)})}
    assert offers_of(FakeBrokers(), topics, read_committed=False)["t"].bounds[0] == (5, 9)


def test_the_lag_of_a_partition_is_what_is_beyond_its_position() -> None:
    position = Position(begin=0, next=7)
    note = LoadNote(topics={"t": TopicPositions(topic_id="id", partitions={0: position})})
    offered = {"t": Offered(topic_id="id", bounds={0: (0, 9), 1: (3, 8)})}
    assert [(each.partition, each.next, each.end, each.lag) for each in lags(note, offered)] == [
        (0, 7, 9, 2),
        (1, 3, 8, 5),
    ]
    assert [each.lag for each in lags(note, {"t": Offered(topic_id="id", bounds={0: (0, 7)})})] == [
        0
    ]


def test_the_quarantine_is_beside_the_table() -> None:
    request = LoadRequest(
        topics=("t",), pattern=None, table="/lake/t/", table_format="delta",
        value_format=ValueFormat(name=FormatName.TEXT), read=ReadOptions(bootstrap="h:1"),
    )  # fmt: skip
    assert request.quarantine_path == "/lake/t_quarantine"


def test_offsets_of_a_topic_that_was_made_anew_meanwhile_are_not_used() -> None:
    with pytest.raises(TopicChanged, match="topic t was deleted or made anew"):
        offers_of(FakeBrokers(), {"t": TopicState("former", 1)})


def test_each_table_has_a_writer_of_its_own_in_a_quarantine() -> None:
    assert quarantine_writer("one") != quarantine_writer("other")
    # Of before there were ids.
    assert quarantine_writer("") == "load"


class FakeTable:
    """Commits by their writers. Those of `refused` are refused; the notes of `forgotten` are gone."""

    def __init__(self) -> None:
        self.done: dict[str, Committed] = {}
        self.refused: str | None = None
        self.forgotten: str | None = None

    def exists(self) -> bool:
        return bool(self.done)

    def read(self) -> Any:
        return MagicMock(**{"limit().count.return_value": 0})

    def committed(self, writer: str) -> Committed | None:
        if writer == self.forgotten:
            raise CommitNoteGone("version 0")
        return self.done.get(writer)

    def commit(self, rows: object, *, writer: str, version: int, note: str, **_: object) -> bool:
        if self.refused is not None and writer.startswith(self.refused):
            raise TableConflict("not now")
        self.done[writer] = Committed(version=version, note=note)
        return True


class OneTopic(FakeBrokers):
    """A topic of one partition. With `refuses_after` the brokers let nobody in any more after so many questions."""

    def __init__(self) -> None:
        self.bounds = (0, 2)
        self.asked = 0
        self.refuses_after: int | None = None

    def __call__(self, *_: object) -> Self:
        self.asked = 0
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def topics(self, names: object, pattern: object = None) -> dict[str, TopicState]:
        self.asked += 1
        if self.refuses_after is not None and self.asked > self.refuses_after:
            raise BrokersRefuse("the login was withdrawn")
        return {"t": TopicState("id", 1)}

    def existing(self, names: object) -> dict[str, TopicState]:
        return {"t": TopicState("id", 1)}

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.bounds[0])

    def latest(
        self, partitions: list[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.bounds[1])


class Loads:
    """Runs of one load, one after the other."""

    def __init__(self, place: Path, name: FormatName) -> None:
        self.brokers = OneTopic()
        self.table, self.quarantine = FakeTable(), FakeTable()
        self._request = LoadRequest(
            topics=("t",), pattern=None, table=str(place), table_format="delta",
            value_format=ValueFormat(name=name), read=ReadOptions(bootstrap="h:1"),
        )  # fmt: skip

    def run(self) -> tuple[int | None, list[tuple[int, int]]]:
        """The version, and what is gone."""
        found = LoadRun(
            MagicMock(),
            self._request,
            lambda _: None,
            opened=lambda _, __, path, **___: (
                self.table if path == self._request.table else self.quarantine
            ),
            connected=self.brokers,
        ).run()
        return found.version, [(each.start, each.end) for each in found.gone]


@pytest.fixture(params=[FormatName.RAW, FormatName.TEXT])
def loads(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """After a first run, which has loaded two records."""
    rows = SimpleNamespace(observe=lambda *_: None)
    for name, instead in {
        "f": MagicMock(),
        "Observation": MagicMock(),
        "counts": lambda _: {"records": 1, "bad": 1},
        "read_ranges": MagicMock(),
        "shape": lambda *_: rows,
        "split": lambda _: SimpleNamespace(good=None, bad=None),
    }.items():
        monkeypatch.setattr(module, name, instead)
    found = Loads(tmp_path / "table", request.param)
    assert found.run() == (0, [])
    return found


def test_what_is_gone_is_told_again_if_a_run_fails_behind_its_commit(loads: Loads) -> None:
    loads.brokers.bounds, loads.brokers.refuses_after = (4, 5), 1
    with pytest.raises(BrokersRefuse):
        loads.run()
    # Another one, before anybody has told of the first.
    loads.brokers.bounds = (7, 8)
    with pytest.raises(BrokersRefuse):
        loads.run()
    loads.brokers.refuses_after = None
    assert loads.run() == (None, [(2, 4), (5, 7)])
    assert loads.run() == (None, [])
    loads.brokers.bounds = (9, 10)
    assert loads.run() == (3, [(8, 9)])
    assert loads.run() == (None, [])


@pytest.mark.parametrize("forgotten", [None, module.TELLER])
def test_a_run_that_cannot_keep_that_it_told_leaves_it_to_the_next(
    loads: Loads, forgotten: str | None
) -> None:
    loads.brokers.bounds, loads.table.refused = (4, 5), module.TELLER
    with pytest.raises(TableConflict, match="not now"):
        loads.run()
    loads.table.refused, loads.table.forgotten = None, forgotten
    assert loads.run() == (None, [(2, 4)])


@pytest.mark.parametrize("loads", [FormatName.TEXT], indirect=True)
def test_what_is_gone_for_the_quarantine_is_told_again_too(loads: Loads) -> None:
    loads.brokers.bounds, loads.quarantine.refused = (2, 4), "load."
    with pytest.raises(TableConflict, match="not now"):
        loads.run()
    loads.quarantine.refused = None
    loads.brokers.bounds, loads.brokers.refuses_after = (3, 4), 1
    with pytest.raises(BrokersRefuse):
        loads.run()
    loads.brokers.refuses_after = None
    assert loads.run() == (None, [(2, 3)])
    assert loads.run() == (None, [])
