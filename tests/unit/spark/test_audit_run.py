"""Which ranges an audit compares."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.audit_run import AuditRequest, QuarantineBehind, loaded, scope
from highwater.spark.load_note import LoadNote, Position, TopicPositions, to_json
from highwater.spark.load_plan import Gone, Offered
from highwater.spark.tables.port import Committed, Snapshot
from highwater.spark.topic_range import OffsetRange, ReadOptions
from highwater.spark.value_format import FormatName, ValueFormat

NOTE = LoadNote(
    topics={"t": TopicPositions(topic_id="id", partitions={0: Position(begin=2, next=9)})}
)


def test_what_was_loaded_and_is_still_there() -> None:
    found = scope(NOTE, {"t": Offered(topic_id="id", bounds={0: (0, 20)})})
    assert found.ranges == (OffsetRange(topic="t", partition=0, start=2, end=9),)
    assert found.uncompared == ()
    assert found.topic_ids == {"t": "id"}


@pytest.mark.parametrize(
    ("offered", "start"),
    [
        ({"t": Offered(topic_id="id", bounds={0: (5, 20)})}, 5),
        ({"t": Offered(topic_id="id", bounds={0: (15, 20)})}, 9),
        ({"t": Offered(topic_id="new", bounds={0: (0, 20)})}, 9),
        ({}, 9),
    ],
)
def test_what_the_log_no_longer_has_is_told(offered: dict[str, Offered], start: int) -> None:
    found = scope(NOTE, offered)
    assert found.ranges == (OffsetRange(topic="t", partition=0, start=start, end=9),)
    assert found.uncompared == (Gone(topic="t", partition=0, start=2, end=start),)


class Moving:
    """A table and its quarantine, of which each look sees the next state."""

    def __init__(self, states: list[tuple[int, int | None]], note: LoadNote) -> None:
        self._states = states
        self._note = note
        self.asked: list[str] = []

    def opened(self, spark: Any, table_format: str, path: str) -> Any:
        is_quarantine = path.endswith("_quarantine")

        def snapshot(writer: str) -> Snapshot | None:
            self.asked.append(writer)
            version = self._states[0][is_quarantine]
            if is_quarantine and len(self._states) > 1:
                del self._states[0]
            if version is None:
                return None
            found = Committed(version=version, note=to_json(self._note))
            return Snapshot(committed=found, rows=f"{path} {version}")

        return SimpleNamespace(snapshot=snapshot)


REQUEST = AuditRequest(table="/t", table_format="delta", read=ReadOptions(bootstrap="h:1"))
TEXT = replace(NOTE, value_format=ValueFormat(name=FormatName.TEXT), load_id="one")


def test_table_and_quarantine_are_of_one_version() -> None:
    """A load commits the one, then the other, and begins anew meanwhile."""
    moving = Moving([(0, None), (1, 0), (1, 2), (2, 2)], TEXT)
    slept: list[float] = []
    found = loaded(None, REQUEST, opened=moving.opened, sleep=slept.append)
    assert (found.note, found.good, found.bad) == (TEXT, "/t 2", "/t_quarantine 2")
    assert len(slept) == 3
    assert set(moving.asked) == {"load", "load.one"}


def test_a_quarantine_that_stays_behind_is_told() -> None:
    with pytest.raises(QuarantineBehind, match="/t_quarantine does not have version 3 of /t"):
        loaded(None, REQUEST, opened=Moving([(3, 2)], TEXT).opened, sleep=lambda _: None)


def test_raw_values_need_no_quarantine() -> None:
    assert loaded(None, REQUEST, opened=Moving([(3, None)], NOTE).opened).bad is None
