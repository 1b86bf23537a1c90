"""What a load reads next, for each state of a partition."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicPartition
from highwater.spark.load_note import LoadNote, Position, TopicPositions
from highwater.spark.load_plan import Gone, Offered, OffsetsOutOfRange, Plan, beyond, plan
from highwater.spark.topic_range import OffsetRange
from highwater.spark.value_format import FormatName, ValueFormat

RAW = ValueFormat(name=FormatName.RAW)


def note(begin: int, after: int, *, topic_id: str = "id") -> LoadNote:
    position = Position(begin=begin, next=after)
    return LoadNote(topics={"t": TopicPositions(topic_id=topic_id, partitions={0: position})})


def offered(*bounds: tuple[int, int], topic_id: str = "id") -> dict[str, Offered]:
    return {"t": Offered(topic_id=topic_id, bounds=dict(enumerate(bounds)))}


def ranges(found: Plan) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in found.note.ranges]


def positions(found: Plan) -> list[tuple[int, int]]:
    topic = found.note.topics["t"]
    return [(each.begin, each.next) for _, each in sorted(topic.partitions.items())]


def test_the_first_load_takes_all_that_is_there() -> None:
    found = plan(None, offered((3, 9), (0, 0)), RAW)
    assert ranges(found) == [(0, 3, 9)]
    assert positions(found) == [(3, 9), (0, 0)]
    assert (found.is_needed, found.gone) == (True, ())


def test_the_next_one_goes_on_where_the_last_one_ended() -> None:
    found = plan(note(3, 9), offered((5, 12)), RAW)
    assert ranges(found) == [(0, 9, 12)]
    assert positions(found) == [(3, 12)]


def test_nothing_new_needs_no_commit() -> None:
    assert not plan(note(3, 9), offered((3, 9)), RAW).is_needed


def test_a_partition_without_records_is_noted_so_that_its_first_ones_are_missed() -> None:
    """Retention may take them before the first load that would read them."""
    assert plan(None, offered((0, 0)), RAW).is_needed
    later = plan(note(0, 0), offered((4, 9)), RAW)
    assert later.gone == (Gone(topic="t", partition=0, start=0, end=4),)


def test_what_retention_took_is_told() -> None:
    found = plan(note(3, 9), offered((20, 25)), RAW)
    assert ranges(found) == [(0, 20, 25)]
    assert positions(found) == [(3, 25)]
    assert found.gone == (Gone(topic="t", partition=0, start=9, end=20),)
    assert "11 offsets of t-0" in found.told[0]


def test_all_of_it_gone() -> None:
    found = plan(note(3, 9), offered((20, 20)), RAW)
    assert (ranges(found), positions(found), found.is_needed) == ([], [(3, 20)], True)


def test_a_partition_was_added() -> None:
    found = plan(note(0, 9), offered((0, 9), (0, 2)), RAW)
    assert ranges(found) == [(1, 0, 2)]
    assert "new partition 1" in found.told[0]


def test_a_topic_made_anew_begins_anew() -> None:
    found = plan(note(0, 9, topic_id="old"), offered((0, 2)), RAW)
    assert ranges(found) == [(0, 0, 2)]
    assert positions(found) == [(0, 2)]
    assert found.note.topics["t"].topic_id == "id"
    assert "made anew" in found.told[0]


def test_a_log_that_lost_its_end_is_an_error() -> None:
    with pytest.raises(OffsetsOutOfRange, match="t-0 ends at 5, but the table has it up to 9"):
        plan(note(0, 9), offered((0, 5)), RAW)


def test_positions_of_other_topics_are_kept() -> None:
    other = TopicPositions(topic_id="o", partitions={0: Position(begin=0, next=1)})
    found = plan(LoadNote(topics={"other": other}), offered((0, 2)), RAW)
    assert found.note.topics["other"] == other
    assert ranges(found) == [(0, 0, 2)]


def test_a_time_says_where_partitions_begin() -> None:
    starts = {TopicPartition("t", 0): 6}
    found = plan(None, offered((0, 9), (0, 4)), RAW, starts=starts)
    assert ranges(found) == [(0, 6, 9)]
    # The second one has no record that is as new.
    assert positions(found) == [(6, 9), (4, 4)]
    again = plan(found.note, offered((0, 11), (0, 5)), RAW, starts=starts)
    assert ranges(again) == [(0, 9, 11), (1, 4, 5)]
    assert again.told == ()


def test_a_time_in_an_open_transaction_is_no_hole() -> None:
    found = plan(None, offered((0, 5)), RAW, starts={TopicPartition("t", 0): 7})
    assert positions(found) == [(5, 5)]


def test_rows_before_the_time_are_not_loaded_without_replace() -> None:
    found = plan(note(6, 9), offered((0, 9)), RAW, starts={TopicPartition("t", 0): 2})
    assert not found.is_needed
    assert "--replace" in found.told[0]


def test_replace_loads_from_the_time_on_and_leaves_no_hole() -> None:
    starts = {TopicPartition("t", 0): 4}
    found = plan(note(2, 9), offered((0, 12)), RAW, starts=starts, replace=True)
    assert ranges(found) == [(0, 4, 12)]
    assert positions(found) == [(2, 12)]
    assert found.note.replace == (
        "(topic = 't' AND topic_id = 'id' AND partition = 0 AND offset >= 4)"
    )
    late = plan(note(2, 9), offered((0, 12)), RAW, starts={}, replace=True)
    assert ranges(late) == [(0, 9, 12)]
    early = plan(note(6, 9), offered((0, 12)), RAW, starts=starts, replace=True)
    assert positions(early) == [(4, 12)]


def test_rows_of_new_partitions_match_what_is_replaced() -> None:
    found = plan(None, offered((0, 3)), RAW, starts={TopicPartition("t", 0): 1}, replace=True)
    assert found.note.replace == (
        "(topic = 't' AND topic_id = 'id' AND partition = 0 AND offset >= 1)"
    )


def test_replace_does_not_begin_where_the_log_no_longer_is() -> None:
    found = plan(
        note(3, 9), offered((20, 25)), RAW, starts={TopicPartition("t", 0): 22}, replace=True
    )
    assert ranges(found) == [(0, 20, 25)]
    assert positions(found) == [(3, 25)]
    assert found.gone == (Gone(topic="t", partition=0, start=9, end=20),)
    assert "11 offsets of t-0, from 9 on, are gone" in found.told[0]
    assert found.note.gone == (OffsetRange(topic="t", partition=0, start=9, end=20),)


def test_a_topic_that_was_never_loaded_tells_where_its_log_begins() -> None:
    found = plan(None, offered((3, 9), (0, 4), (7, 7)), RAW)
    assert found.told == (
        "topic t begins at offset 3 of partition 0, 7 of partition 2: what was before is not in the log any more",
    )
    assert found.gone == ()
    # The time is in the log, so nothing of that time is missed.
    assert plan(None, offered((3, 9)), RAW, starts={TopicPartition("t", 0): 6}).told == ()


def test_many_partitions_that_begin_late_are_one_line() -> None:
    found = plan(None, offered(*[(5, 9)] * 30), RAW)
    assert len(found.told) == 1
    assert "5 of partition 9 and of 20 more partitions" in found.told[0]


def test_a_topic_that_came_since_is_told() -> None:
    other = TopicPositions(topic_id="o", partitions={0: Position(begin=0, next=1)})
    last = LoadNote(topics={"other": other})
    assert plan(last, offered((0, 2)), RAW).told == (
        "topic t is new: it is loaded from its beginning",
    )
    timed = plan(last, offered((0, 2)), RAW, starts={TopicPartition("t", 0): 1})
    assert timed.told == ("topic t is new: it is loaded from the time of --from on",)


@pytest.mark.parametrize(
    "last",
    [
        note(0, 9, topic_id="old"),
        LoadNote(topics={"t": TopicPositions(topic_id="id", partitions={})}),
    ],
)
def test_what_retention_took_of_a_topic_made_anew_or_a_new_partition_is_gone(
    last: LoadNote,
) -> None:
    """The topic was being loaded, so that nobody else has seen these records."""
    found = plan(last, offered((4, 9)), RAW)
    assert found.gone == (Gone(topic="t", partition=0, start=0, end=4),)
    assert "4 offsets of t-0, from 0 on, are gone" in found.told[1]
    assert (ranges(found), positions(found)) == ([(0, 4, 9)], [(4, 9)])
    assert plan(last, offered((4, 9)), RAW, starts={TopicPartition("t", 0): 6}).gone == ()


def test_a_topic_made_anew_with_a_time_does_not_claim_its_beginning() -> None:
    starts = {TopicPartition("t", 0): 1}
    found = plan(note(0, 9, topic_id="old"), offered((0, 2)), RAW, starts=starts)
    assert found.told == ("topic t was made anew: it is loaded from the time of --from on",)
    assert positions(found) == [(1, 2)]


def test_topics_of_the_pattern_that_are_gone_are_told() -> None:
    known = {name: TopicPositions(topic_id="x", partitions={}) for name in ("t-1", "u", "t-2")}
    found = plan(
        LoadNote(topics=known), {"t-2": Offered(topic_id="x", bounds={})}, RAW, pattern="t-."
    )
    assert found.told == ("topic t-1, which the table has, is not there any more",)
    assert set(found.note.topics) == set(known)


def test_an_open_transaction_over_what_was_read_uncommitted_is_waited_for() -> None:
    place = TopicPartition("t", 0)
    assert beyond(note(0, 9), offered((0, 5))) == [place]
    assert beyond(note(0, 9, topic_id="old"), offered((0, 5))) == []
    found = plan(note(0, 9), offered((0, 5)), RAW, high_watermarks={place: 9})
    assert (ranges(found), positions(found), found.is_needed) == ([], [(0, 9)], False)
    assert found.told[0].startswith(
        "t-0 was loaded with --read-uncommitted up to 9, and a transaction is open from 5 on"
    )
    with pytest.raises(OffsetsOutOfRange):
        plan(note(0, 9), offered((0, 5)), RAW, high_watermarks={place: 8})


def test_replace_loads_committed_records_in_place_of_uncommitted_ones() -> None:
    place = TopicPartition("t", 0)
    found = plan(
        note(0, 9),
        offered((0, 5)),
        RAW,
        high_watermarks={place: 9},
        starts={place: 3},
        replace=True,
    )
    assert (ranges(found), positions(found)) == ([(0, 3, 5)], [(0, 5)])
