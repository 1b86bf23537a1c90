"""What is copied next, for everything that can have happened to a partition since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicPartition
from highwater.spark.load_plan import Gone, Offered, OffsetsOutOfRange
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import Copy, Sync
from highwater.spark.mirror.plan import CopyState, Plan, Work, beyond, departed, plan, without_copy

SYNC = Sync(
    topic="a.t", partition=0, number=4, source_id="s", copy_id="c",
    source_first=5, source_next=10, copy_first=0, copy_next=5, records=5,
)  # fmt: skip
COPY = CopyState(topic_id="c", partitions=1, batch_bytes=1000)
PLACE = TopicPartition("t", 0)


def planned(*syncs: Sync, bounds: tuple[int, int] = (0, 10), **more: Any) -> Plan:
    known = OffsetMap()
    known.apply(syncs)
    given = {"starts": {}, "goal": None, "offsets_max": 1000} | more
    offered = given.pop("offered", {"t": Offered(topic_id="s", bounds={0: bounds})})
    return plan(offered, {"t": "a.t"}, {"t": COPY, "a.t": COPY}, known, **given)


def ranges(found: Plan) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in found.work]


def test_a_partition_begins_with_its_first_record():
    found = planned(bounds=(3, 10))
    assert found.work == (
        Work(
            topic="t", partition=0, start=3, end=10, source_id="s", copy="a.t", copy_id="c",
            batch_bytes=1000, newest=None,
        ),
    )  # fmt: skip
    assert (found.positions, found.gone) == ({PLACE: 3}, ())
    # Never copied before: where its log begins is told, and is no loss of ours.
    assert found.told == (
        "topic t begins at offset 3 of partition 0: what was before is not in the log any more",
    )
    assert planned(bounds=(3, 10), starts={PLACE: 5}).told == ()


def test_an_empty_partition_is_noted_so_that_its_losses_are_known():
    assert ranges(planned(bounds=(0, 0))) == [(0, 0)]


@pytest.mark.parametrize(("start", "begins"), [(7, 7), (12, 10), (1, 3)])
def test_a_partition_begins_where_it_is_told(start: int, begins: int):
    assert ranges(planned(bounds=(3, 10), starts={PLACE: start})) == [(begins, 10)]


def test_a_partition_goes_on():
    found = planned(SYNC, bounds=(0, 12), starts={PLACE: 11})
    assert ranges(found) == [(10, 12)]
    assert found.work[0].newest == SYNC
    done = planned(SYNC)
    assert (done.work, done.told, done.positions) == ((), (), {PLACE: 10})


def test_limits_of_a_round_and_of_a_run():
    assert ranges(planned(bounds=(0, 10), offsets_max=4)) == [(0, 4)]
    assert ranges(planned(bounds=(0, 10), goal={PLACE: 6})) == [(0, 6)]
    assert planned(SYNC, bounds=(0, 30), goal={PLACE: 10}).work == ()
    # A partition that came since the first round.
    assert ranges(planned(bounds=(0, 10), goal={})) == [(0, 0)]


def test_what_retention_took_is_told_once():
    found = planned(SYNC, bounds=(15, 20))
    assert ranges(found) == [(15, 20)]
    assert found.gone == (Gone(topic="t", partition=0, start=10, end=15),)
    assert found.told == (
        "5 offsets of t-0, from 10 on, are gone by retention before they were copied",
    )
    # Also if nothing is left to read: the work notes where the partition stands.
    assert ranges(planned(SYNC, bounds=(15, 15))) == [(15, 15)]
    noted = replace(SYNC, number=5, source_first=15, source_next=15)
    assert planned(SYNC, noted, bounds=(15, 15)).told == ()


def test_a_log_that_lost_its_end():
    with pytest.raises(OffsetsOutOfRange, match="t-0 ends at 9, but it was copied up to 10"):
        planned(SYNC, bounds=(0, 9))


def test_a_topic_that_was_made_anew():
    old = [replace(SYNC, source_id="old", partition=number) for number in (0, 1)]
    found = planned(*old, bounds=(0, 3))
    assert ranges(found) == [(0, 3)]
    (told,) = found.told
    assert told.startswith("topic t was made anew, with 1 partitions, not 2: it is copied from its")
    # --from is for topics without a copy.
    assert ranges(planned(old[0], bounds=(0, 3), starts={PLACE: 3})) == [(0, 3)]
    assert ranges(planned(old[0], bounds=(0, 0))) == [(0, 0)]
    assert planned(old[0], replace(SYNC, number=5, source_next=3), bounds=(0, 3)).told == ()


def test_a_copy_that_was_deleted():
    found = planned(replace(SYNC, copy_id="old"))
    assert ranges(found) == [(0, 10)]
    assert found.told == ("the copy a.t was deleted or made anew: t is copied from its beginning",)


def test_partitions_are_on_their_own():
    offered = {"t": Offered(topic_id="s", bounds={0: (0, 10), 1: (2, 5)})}
    found = planned(SYNC, offered=offered)
    assert [(each.partition, each.start, each.end) for each in found.work] == [(1, 2, 5)]
    assert found.positions == {PLACE: 10, TopicPartition("t", 1): 2}


def test_a_partition_that_came_while_the_mirror_was_down_is_copied_whole():
    """--from is for topics without a copy: the records of this partition came since, nobody left them out."""
    offered = {"t": Offered(topic_id="s", bounds={0: (0, 10), 1: (0, 50)})}
    known = OffsetMap()
    assert without_copy(offered, {"t": "a.t"}, known) == offered
    known.apply([SYNC])
    assert without_copy(offered, {"t": "a.t"}, known) == {}
    assert without_copy(offered, {"t": "other"}, known) == offered
    found = planned(SYNC, offered=offered)
    assert [(each.partition, each.start, each.end) for each in found.work] == [(1, 0, 50)]


def test_what_retention_took_of_a_topic_made_anew_is_gone():
    found = planned(replace(SYNC, source_id="old"), bounds=(2, 3))
    assert found.gone == (Gone(topic="t", partition=0, start=0, end=2),)
    assert "2 offsets of t-0, from 0 on, are gone" in found.told[1]
    # The copy was deleted: what is not in the log any more had been copied.
    again = planned(replace(SYNC, copy_id="old"), bounds=(2, 3))
    assert again.gone == ()
    assert "begins at offset 2" in again.told[1]


def test_an_open_transaction_over_what_was_copied_uncommitted_is_waited_for():
    known = OffsetMap()
    known.apply([SYNC])
    offered = {"t": Offered(topic_id="s", bounds={0: (0, 9)})}
    assert beyond(offered, {"t": "a.t"}, {"a.t": COPY}, known) == [PLACE]
    found = planned(SYNC, bounds=(0, 9), high_watermarks={PLACE: 10})
    assert (found.work, found.positions) == ((), {PLACE: 10})
    assert "a transaction is open from 9 on" in found.told[0]
    with pytest.raises(OffsetsOutOfRange):
        planned(SYNC, bounds=(0, 8), high_watermarks={PLACE: 9})


def test_topics_of_the_pattern_that_are_gone_are_told():
    known = OffsetMap()
    known.apply(
        Copy(topic=f"{alias}.{name}", source=alias, source_topic=name, path=("S",))
        for alias, name in (("a", "t-1"), ("a", "t-2"), ("a", "u"), ("b", "t-3"))
    )
    assert departed(known, {"t-2"}, "t-.", "a") == [
        "topic t-1, which a.t-1 is a copy of, is not at a any more"
    ]
    assert departed(known, set(), None, "a") == []
