"""What syncs say of offsets: exactly, or never too late."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from highwater.spark.mirror.offset_map import OffsetMap, Translation, translate
from highwater.spark.mirror.offset_records import Copy, Sync, Withdrawn

FIRST = Sync(
    topic="t", partition=0, number=1, source_id="s", copy_id="c",
    source_first=10, source_next=20, copy_first=0, copy_next=10, records=10,
)  # fmt: skip
SECOND = replace(
    FIRST, number=2, source_first=20, source_next=30, copy_first=11, copy_next=18, records=7
)


def exact(offset: int) -> Translation:
    return Translation(offset=offset, is_exact=True)


def early(offset: int) -> Translation:
    return Translation(offset=offset, is_exact=False)


def test_offsets_of_a_copy():
    syncs = [FIRST, SECOND]
    assert translate(syncs, 10) == exact(0)
    assert translate(syncs, 13) == exact(3)
    assert translate(syncs, 20) == exact(11)
    # Three of ten offsets had no record: only the ends are known.
    assert translate(syncs, 25) == early(11)
    assert translate(syncs, 30) == exact(18)


def test_before_and_behind_what_is_copied():
    assert translate([FIRST], 5) == early(0)
    assert translate([FIRST], 21) == early(10)
    assert translate([], 5) is None


def test_syncs_that_were_thinned_out():
    third = replace(SECOND, number=3, source_first=30, source_next=31, copy_first=19, copy_next=20)
    assert translate([FIRST, third], 20) == exact(10)
    assert translate([FIRST, third], 25) == early(10)


def test_syncs_of_topics_that_are_no_more_say_nothing():
    anew = replace(
        FIRST, number=3, source_id="s2", source_first=0, source_next=5, copy_first=40, copy_next=45,
        records=5,
    )  # fmt: skip
    assert translate([FIRST, SECOND, anew], 3) == exact(43)
    assert translate([FIRST, SECOND, anew], 15) == early(45)


@given(st.data())
def test_never_behind_the_right_offset(data: st.DataObject):
    """A source with holes, copied in transactions; some syncs are no longer kept."""
    has_record = data.draw(st.lists(st.booleans(), min_size=1, max_size=40))
    syncs, right, copied, start = [], {}, 0, 0
    while start < len(has_record):
        end = min(len(has_record), start + data.draw(st.integers(1, 10)))
        first = copied
        for offset in range(start, end):
            right[offset] = copied
            copied += has_record[offset]
        syncs.append(
            replace(
                FIRST, number=len(syncs) + 1, source_first=start, source_next=end,
                copy_first=first, copy_next=copied, records=copied - first,
            )
        )  # fmt: skip
        copied += 1  # The marker.
        start = end
    keep = data.draw(st.sets(st.sampled_from(range(len(syncs)))))
    kept = [sync for index, sync in enumerate(syncs) if index in keep or index == len(syncs) - 1]
    for offset, wanted in right.items():
        found = translate(kept, offset)
        assert found is not None
        assert found.offset <= wanted
        if found.is_exact and has_record[offset]:
            # In between there may be markers, and nothing else.
            between = range(found.offset, wanted)
            assert not set(between) & {right[at] for at in right if has_record[at]}


def test_a_map_knows_copies_and_the_newest_syncs():
    known = OffsetMap()
    copy = Copy(topic="t", source="a", source_topic="t", path=("x",))
    known.apply([copy, FIRST, SECOND])
    assert known.copies == {"t": copy}
    assert known.newest("t", 0) == SECOND
    assert known.syncs("t", 0) == [FIRST, SECOND]
    assert known.newest("t", 1) is None
    assert known.syncs("t", 1) == []
    assert (known.partitions("t"), known.partitions("u")) == (1, 0)
    known.apply([Withdrawn(topic="t"), Withdrawn(topic="never")])
    assert known.copies == {}


def test_a_later_sync_takes_the_place_of_an_older_one():
    known = OffsetMap()
    known.apply(replace(FIRST, number=number) for number in range(1, 200))
    numbers = [sync.number for sync in known.syncs("t", 0)]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 199
    assert 1 not in numbers
