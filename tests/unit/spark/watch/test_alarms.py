from __future__ import annotations

from dataclasses import replace

from highwater.spark.watch.alarms import (
    EMPTY_MINUTES_MAX,
    AlarmChange,
    AlarmState,
    RuleState,
    advance,
    forget,
    idle,
    step,
)
from highwater.spark.watch.minute import Metric, Minute
from highwater.spark.watch.rules import Absence, Change, Rule, Threshold

BUSY = Threshold(name="busy", metric=Metric.REQUESTS, above=10)


def minute(number: int, requests: int, **values: int) -> Minute:
    return Minute(start_s=60 * number, requests=requests, **values)


def changes(rules: tuple[Rule, ...], *minutes: Minute) -> list[tuple[str, str, int, float | None]]:
    """(rule, begin or end, minute at whose end it is, value)."""
    _, found = advance(rules, AlarmState(), minutes)
    return [told(change) for change in found]


def told(change: AlarmChange) -> tuple[str, str, int, float | None]:
    return (
        change.rule,
        "begin" if change.begins else "end",
        change.at_s // 60 - 1,
        change.value,
    )


def test_an_alarm_begins_beyond_the_limit_and_ends():
    found = changes((BUSY,), minute(0, 10), minute(1, 11), minute(2, 12), minute(3, 10))
    assert found == [("busy", "begin", 1, 11), ("busy", "end", 3, 10)]


def test_an_alarm_below_a_limit():
    rule = Threshold(name="few", metric=Metric.REQUESTS, below=5)
    assert changes((rule,), minute(0, 5), minute(1, 4), minute(2, 5)) == [
        ("few", "begin", 1, 4),
        ("few", "end", 2, 5),
    ]


def test_it_begins_and_ends_after_so_many_in_a_row():
    rule = replace(BUSY, for_minutes=3, clear_minutes=2)
    counts = [11, 11, 1, 11, 11, 11, 1, 11, 1, 1]
    found = changes((rule,), *(minute(number, count) for number, count in enumerate(counts)))
    assert found == [("busy", "begin", 5, 11), ("busy", "end", 9, 1)]


def test_minutes_without_requests_count_for_counts():
    assert changes((BUSY,), minute(0, 11), minute(3, 1)) == [
        ("busy", "begin", 0, 11),
        ("busy", "end", 1, 0),
    ]


def test_what_says_nothing_changes_nothing():
    rule = Threshold(
        name="errors", metric=Metric.ERROR_RATE, above=0.5, for_minutes=2, least_requests=2
    )
    found = changes(
        (rule,),
        minute(0, 2, errors=2),
        minute(1, 1),  # Too few.
        minute(4, 2, errors=2),  # Two minutes without any before it.
        minute(5, 1),
        minute(6, 4, errors=2),
    )
    assert found == [("errors", "begin", 4, 1), ("errors", "end", 6, 0.5)]


def test_a_change_is_against_the_hour_before():
    rule = Change(name="jump", metric=Metric.REQUESTS, above=2.0, below=0.5, least_minutes=3)
    steady = [minute(number, 10) for number in range(5)]
    assert changes((rule,), *steady[:2], minute(2, 100)) == []
    assert changes((rule,), *steady, minute(5, 21), minute(6, 11)) == [
        ("jump", "begin", 5, 2.1),
        ("jump", "end", 6, 11 / ((5 * 10 + 21) / 6)),
    ]
    assert changes((rule,), *steady, minute(5, 4))[0][:3] == ("jump", "begin", 5)
    # The hour before has no minute that is known.
    assert changes((rule,), *steady, minute(70, 100))[0][1:3] == ("begin", 5)
    assert all(found[2] < 65 for found in changes((rule,), *steady, minute(70, 100)))


def test_a_mean_of_nothing_says_nothing():
    rule = Change(name="jump", metric=Metric.ERRORS, above=2.0, least_minutes=1)
    assert changes((rule,), minute(0, 1), minute(1, 1, errors=1)) == []


def test_absence_begins_when_its_minutes_are_over_and_ends_with_a_request():
    rule = Absence(name="silence", minutes=3)
    assert changes((rule,), minute(0, 1), minute(3, 1)) == []
    assert changes((rule,), minute(0, 1), minute(4, 1)) == [
        ("silence", "begin", 3, 3),
        ("silence", "end", 4, 3),
    ]


def test_the_clock_begins_an_absence_once():
    rules = (Absence(name="silence", minutes=3), BUSY)
    state, _ = step(rules, AlarmState(), minute(0, 1))
    assert idle(rules, state, 239.9) == (state, [])
    state, found = idle(rules, state, 240)
    assert [told(each) for each in found] == [("silence", "begin", 3, 3)]
    assert idle(rules, state, 10_000) == (state, [])
    _, found = step(rules, state, minute(2, 1))
    # The request was on its way: the end is not before the beginning.
    assert [(each.begins, each.at_s, each.since_s) for each in found] == [(False, 240, 240)]


def test_one_silence_is_one_alarm_also_if_minutes_before_it_are_closed_after_its_beginning():
    rules = (Absence(name="silence", minutes=3),)
    state, _ = step(rules, AlarmState(), minute(0, 1))
    # Requests of minutes 1 to 5 have come; their minutes are open, since they may come late.
    state = replace(state, newest_s=5 * 60 + 20)
    assert idle(rules, state, 219) == (state, [])
    state, found = idle(rules, state, 220)
    assert [told(each) for each in found] == [("silence", "begin", 8, 3)]
    later = [minute(number, 1) for number in (1, 2, 3, 4, 5, 11)]
    state, found = advance(rules, state, later)
    assert [told(each) for each in found] == [("silence", "end", 11, 5)]
    assert found[0].since_s == 9 * 60
    assert state.rules == {"silence": RuleState()}


def test_a_request_that_was_on_its_way_ends_a_silence_that_was_none():
    rules = (Absence(name="silence", minutes=3),)
    state, _ = step(rules, AlarmState(newest_s=330), minute(5, 1))
    state, found = idle(rules, state, 210)
    assert [told(each) for each in found] == [("silence", "begin", 8, 3)]
    state, found = advance(rules, state, [minute(7, 1)])
    assert [(each.begins, each.at_s, each.value) for each in found] == [(False, 540, 1)]


def test_a_silence_before_any_minute_is_closed():
    rules = (Absence(name="silence", minutes=1),)
    state, found = idle(rules, AlarmState(newest_s=30), 90)
    assert [told(each) for each in found] == [("silence", "begin", 1, 1)]
    state, found = advance(rules, state, [minute(0, 1), minute(4, 1)])
    assert [told(each) for each in found] == [("silence", "end", 4, 3)]


def test_before_the_first_minute_nothing_is_absent():
    assert idle((Absence(name="silence", minutes=1),), AlarmState(), 10**9) == (AlarmState(), [])


def test_a_minute_that_was_looked_at_is_left_out():
    state, _ = step((BUSY,), AlarmState(), minute(5, 11))
    assert step((BUSY,), state, minute(5, 1)) == (state, [])
    assert step((BUSY,), state, minute(4, 1)) == (state, [])


def test_the_alarm_of_a_rule_that_is_gone_ends():
    state, _ = step((BUSY,), AlarmState(), minute(0, 11))
    state, found = step((), state, minute(1, 11))
    assert found == [
        AlarmChange(rule="busy", begins=False, at_s=120, since_s=60, value=None, limit=None)
    ]
    assert state.rules == {}
    assert forget((), state, 0) == (state, [])


def test_a_gap_of_years_is_quick():
    rules = (BUSY, Absence(name="silence", minutes=10))
    state, _ = step(rules, AlarmState(), minute(0, 11))
    far = minute(10_000_000, 11)
    state, found = step(rules, state, far)
    looked = [told(each)[:3] for each in found]
    assert looked == [
        ("busy", "end", 1),
        ("silence", "begin", 10),
        ("busy", "begin", 10_000_000),
        ("silence", "end", 10_000_000),
    ]
    assert EMPTY_MINUTES_MAX == 120
