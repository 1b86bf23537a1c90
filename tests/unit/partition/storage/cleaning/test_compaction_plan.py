import pytest

from highwater.partition.storage.cleaning.compaction_plan import (
    OFFSET_DELTA_MAX,
    cleanable,
    grouped,
    must_clean,
)
from highwater.partition.storage.segment.segment import SegmentSpan


def span(base, following, size=100, *, index=8, newest=1_000):
    return SegmentSpan(
        base_offset=base,
        next_offset=following,
        size=size,
        index_bytes=index,
        max_timestamp=newest,
    )


SEALED = [span(0, 10, 50), span(10, 20, 30), span(20, 30, 20)]


def plan(first_dirty=0, stable_offset=100, now_ms=2_000, lag_ms_min=0, segments=SEALED):
    return cleanable(
        segments,
        first_dirty=first_dirty,
        stable_offset=stable_offset,
        now_ms=now_ms,
        lag_ms_min=lag_ms_min,
    )


def test_everything_that_is_committed():
    part = plan()
    assert (part.start, part.first_dirty, part.end) == (0, 0, 30)
    assert (part.clean_bytes, part.dirty_bytes, part.dirty_ratio) == (0, 100, 1.0)
    assert plan(stable_offset=30).end == 30
    assert plan(stable_offset=29).end == 20, "whole segments only"
    assert plan(stable_offset=9).dirty_ratio == 0.0
    assert plan(segments=[]).dirty_bytes == 0


def test_offsets_cleaned_by_the_last_pass_are_not_dirty():
    part = plan(first_dirty=20)
    assert (part.clean_bytes, part.dirty_bytes, part.dirty_ratio) == (80, 20, 0.2)
    assert plan(first_dirty=30).dirty_ratio == 0.0


@pytest.mark.parametrize("first_dirty", [-1, 31, 1_000])
def test_checkpoint_outside_of_the_log_means_from_the_start(first_dirty):
    assert plan(first_dirty=first_dirty).first_dirty == 0


def test_checkpoint_before_what_retention_has_left():
    assert plan(first_dirty=5, segments=SEALED[1:]).first_dirty == 10


def test_young_records_keep_their_segment_and_those_behind_away():
    segments = [span(0, 10, newest=500), span(10, 20, newest=1_500), span(20, 30, newest=400)]
    assert plan(segments=segments, lag_ms_min=1_000).end == 10
    assert plan(segments=segments, lag_ms_min=400).end == 30
    assert plan(segments=segments, lag_ms_min=0).end == 30


@pytest.mark.parametrize(
    ("ratio", "dirty_since_ms", "due"),
    [(0.51, 900, True), (0.5, 900, False), (0.01, 899, True), (0.0, 0, False)],
)
def test_when_a_log_is_due(ratio, dirty_since_ms, due):
    assert due == must_clean(
        dirty_since_ms, now_ms=1_000, lag_ms_max=100, ratio=ratio, ratio_min=0.5
    )


def sizes(groups):
    return [[segment.size for segment in group] for group in groups]


def test_neighbours_share_a_segment_as_long_as_they_fit():
    segments = [span(n * 10, n * 10 + 10, size) for n, size in enumerate((40, 60, 1, 300, 50, 50))]
    groups = grouped(segments, segment_bytes=100, index_bytes_max=1_000)
    assert sizes(groups) == [[40, 60], [1], [300], [50, 50]]
    groups = grouped(segments, segment_bytes=1_000, index_bytes_max=16)
    assert [len(group) for group in groups] == [2, 2, 2]
    assert grouped([], segment_bytes=1, index_bytes_max=1) == []


def test_offsets_of_a_group_fit_its_index():
    far = 10 + OFFSET_DELTA_MAX
    segments = [span(10, 20), span(20, far + 1), span(far + 1, far + 2)]
    assert sizes(grouped(segments, segment_bytes=1_000, index_bytes_max=1_000)) == [
        [100, 100],
        [100],
    ]
