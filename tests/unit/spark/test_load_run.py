"""What surrounds a load: offers, and lag."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicChanged, TopicPartition, TopicState
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.load_plan import Offered
from highwater.spark.load_run import LoadRequest, lags, offers_of, quarantine_writer
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
