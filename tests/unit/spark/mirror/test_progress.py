"""A round as numbers and as a line."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicPartition
from highwater.spark.load_plan import Offered
from highwater.spark.mirror.progress import MirrorProgress, TopicProgress, describe, progress_of
from highwater.spark.mirror.writer import Written

PROGRESS = MirrorProgress(
    source="a", round=3, topics=1, records=3000, records_per_s=1500.0, size_bytes=40_000,
    transactions=2, offsets={"t-0": 3010, "t-1": 7}, lag=12, skipped=0, moved=0,
    seconds=2.0, by_topic={"t": TopicProgress(records=3000, lag=12)},
)  # fmt: skip


def test_numbers_of_a_round():
    found = progress_of(
        "a", 3,
        {"t": Offered(topic_id="s", bounds={0: (0, 3020), 1: (5, 9), 2: (4, 4)})},
        {TopicPartition("t", 0): 10, TopicPartition("t", 1): 7, TopicPartition("t", 2): 4},
        [Written(topic="t", partition=0, next=3010, records=3000, size_bytes=40_000, transactions=2)],
        seconds=2.0,
    )  # fmt: skip
    assert found == replace(PROGRESS, offsets={"t-0": 3010, "t-1": 7, "t-2": 4})


def test_a_round_without_work():
    found = progress_of("a", 1, {}, {}, [], seconds=0.0)
    assert (found.records, found.records_per_s, found.lag, found.offsets) == (0, 0.0, 0, {})


def test_a_line_for_people():
    line = "a, round 3: 3,000 records, 1,500 rows/s, 40,000 bytes in 2 transactions, offsets 3,017, lag 12"
    assert describe(PROGRESS) == line
    assert describe(replace(PROGRESS, skipped=1, moved=2)) == (
        f"{line}, 1 were there, 2 with time 0, which is 1 in the copy"
    )
