"""Notes go through their text; other text is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.load_note import (
    LoadNote,
    NoteUnreadable,
    Position,
    TopicPositions,
    from_json,
    to_json,
)
from highwater.spark.topic_range import OffsetRange
from highwater.spark.value_format import FormatName, ValueFormat


def test_a_note_goes_through_its_text() -> None:
    note = LoadNote(
        topics={
            "a": TopicPositions(topic_id="x", partitions={0: Position(begin=1, next=5)}),
            "b": TopicPositions(topic_id="y", partitions={}),
        },
        ranges=(OffsetRange(topic="a", partition=0, start=3, end=5),),
        replace="offset >= 3",
        gone=(OffsetRange(topic="a", partition=0, start=1, end=3),),
        load_id="one",
        value_format=ValueFormat(name=FormatName.CSV, schema="a int"),
    )
    assert from_json(to_json(note)) == note
    assert "\n" not in to_json(note)


def test_a_note_of_before_there_were_ids_has_none() -> None:
    text = (
        '{"topics": {}, "ranges": [], "replace": null, "format": {"name": "raw", "schema": null}}'
    )
    assert from_json(text) == LoadNote(topics={})


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"topics": 7}', '{"topics": {"a": {}}}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(NoteUnreadable, match="no note of a load"):
        from_json(text)
