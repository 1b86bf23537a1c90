"""A group's offsets in the copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicPartition
from highwater.spark.mirror.group_move import MovedOffset, csv_line, move
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import Copy, Sync

SYNC = Sync(
    topic="a.t", partition=1, number=1, source_id="s", copy_id="c",
    source_first=10, source_next=20, copy_first=0, copy_next=10, records=10,
)  # fmt: skip
IDS = {"alias": "a", "source_ids": {"t": "s"}, "copy_ids": {"a.t": "c"}}


def known(*syncs: Sync) -> OffsetMap:
    found = OffsetMap()
    found.apply([Copy(topic="a.t", source="a", source_topic="t", path=("A",)), *syncs])
    return found


def test_offsets_move():
    moved = move({TopicPartition("t", 1): 14}, known(SYNC), **IDS)
    assert moved.offsets == (
        MovedOffset(
            topic="a.t", partition=1, offset=4, source_topic="t", source_offset=14, is_exact=True
        ),
    )
    assert moved.told == ()
    assert csv_line(moved.offsets[0]) == "a.t,1,4"


def test_what_cannot_move_is_told():
    committed = {
        TopicPartition("t", 0): 1,
        TopicPartition("t", 1): 2,
        TopicPartition("u", 0): 3,
    }
    moved = move(committed, known(replace(SYNC, source_id="older")), **IDS)
    assert moved.offsets == ()
    assert moved.told == (
        "t-0 is not copied: offset 1 is left out",
        "t-1 or its copy was made anew since: offset 2 is left out",
        "u-0 is not copied: offset 3 is left out",
    )
    assert len(move(committed, known(replace(SYNC, copy_id="older")), **IDS).told) == 3
