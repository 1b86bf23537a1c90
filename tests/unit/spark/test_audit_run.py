"""Which ranges an audit compares."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.audit_run import scope
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.load_plan import Gone, Offered
from highwater.spark.topic_range import OffsetRange

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
