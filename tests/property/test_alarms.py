"""Alarms by any rules over any minutes: they alternate, and neither batches nor long gaps change them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.spark.watch import alarms
from highwater.spark.watch.alarms import AlarmState, advance
from highwater.spark.watch.minute import Metric, Minute
from highwater.spark.watch.rules import Absence, Change, Threshold
from highwater.spark.watch.state_text import from_note, to_note

METRICS = st.sampled_from([Metric.REQUESTS, Metric.ERROR_RATE, Metric.ERRORS])
LIMITS = st.sampled_from([0.3, 0.5, 1.0, 2.0, 5.0])
IN_A_ROW = st.integers(1, 4)
THRESHOLDS = st.builds(
    Threshold, name=st.just("t"), metric=METRICS, above=LIMITS, for_minutes=IN_A_ROW,
    clear_minutes=IN_A_ROW, least_requests=st.integers(0, 2),
)  # fmt: skip
CHANGES = st.builds(
    Change, name=st.just("c"), metric=METRICS, below=LIMITS, for_minutes=IN_A_ROW,
    clear_minutes=IN_A_ROW, least_minutes=st.integers(1, 3),
)  # fmt: skip
ABSENCES = st.builds(Absence, name=st.just("a"), minutes=st.integers(1, 300))
RULES = st.tuples(THRESHOLDS, CHANGES, ABSENCES)


@st.composite
def series(draw: st.DrawFn) -> list[Minute]:
    gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5, 61, 119, 130, 400]), max_size=25))
    start_s, minutes = 0, []
    for gap in gaps:
        start_s += 60 * gap
        requests = draw(st.integers(1, 6))
        minutes.append(
            Minute(start_s=start_s, requests=requests, errors=draw(st.integers(0, requests)))
        )
    return minutes


@given(rules=RULES, minutes=series())
def test_alarms_alternate_and_time_goes_on(rules, minutes):
    _, changes = advance(rules, AlarmState(), minutes)
    assert [change.at_s for change in changes] == sorted(change.at_s for change in changes)
    for rule in rules:
        own = [change for change in changes if change.rule == rule.name]
        assert [change.begins for change in own] == [i % 2 == 0 for i in range(len(own))]
        for before, after in pairwise(own):
            if before.begins:
                assert after.since_s == before.at_s


@given(rules=RULES, minutes=series(), cut=st.integers(0, 25))
def test_batches_and_notes_change_nothing(rules, minutes, cut):
    whole = advance(rules, AlarmState(), minutes)
    state, first = advance(rules, AlarmState(), minutes[:cut])
    state, batch = from_note(to_note(state, cut))
    assert batch == cut
    # The second part begins with minutes that were looked at.
    state, second = advance(rules, state, minutes[max(0, cut - 2) :])
    assert (state, first + second) == whole


@given(rules=RULES, minutes=series())
def test_a_long_gap_is_as_if_each_minute_was_looked_at(rules, minutes):
    shortened = advance(rules, AlarmState(), minutes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alarms, "EMPTY_MINUTES_MAX", 10**9)
        assert advance(rules, AlarmState(), minutes) == shortened
