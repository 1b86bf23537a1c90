"""Alarms that begin and end: pure functions from minutes to changes.

Each rule's alarm has two states. A threshold or a change goes

    quiet    -> sounding   after `for_minutes` in a row in which the rule holds
    sounding -> quiet      after `clear_minutes` in a row in which it does not

and a minute that says nothing about the rule (no request for a rate, too few requests, an hour before
of which too little is known) counts for neither side. An absence goes

    quiet    -> sounding   at the end of the last of `minutes` without a request
    sounding -> quiet      with the first minute that has one and is not before those minutes

Minutes come in the order of time. Minutes between two that come had no request.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from highwater.spark.watch.minute import HOUR_S, MINUTE_S, Minute, empty_minute
from highwater.spark.watch.rules import IN_A_ROW_MAX, Absence, Change, Rule, Threshold

EMPTY_MINUTES_MAX: Final = HOUR_S // MINUTE_S + IN_A_ROW_MAX
"""After so many minutes without a request one more changes nothing: the hour before is empty, and no
rule counts further. A gap of years costs no more than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmChange:
    """An alarm that begins or ends, at `at_s`; `since_s` is when it began.

    `value` is what the rule compared with `limit`: the metric, its ratio to the hour before, or minutes
    without a request. An alarm that ends because its rule is gone has neither.
    """

    rule: str
    begins: bool
    at_s: int
    since_s: int
    value: float | None
    limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """Minutes in a row in which the rule held or did not, and since when its alarm sounds."""

    holding: int = 0
    clear: int = 0
    since_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmState:
    """What is known: the last minute with a request, those of the hour before its end, each rule.

    `newest_s` is the time of the newest request of all, whose minute may not be closed yet.
    """

    last_s: int | None = None
    newest_s: int | None = None
    hour: tuple[Minute, ...] = ()
    rules: Mapping[str, RuleState] = field(default_factory=dict)


Stepped = tuple[AlarmState, list[AlarmChange]]


def advance(rules: tuple[Rule, ...], state: AlarmState, minutes: Iterable[Minute]) -> Stepped:
    """Returns the state after these minutes, which have requests, and the changes in between."""
    changes = []
    for minute in minutes:
        state, more = step(rules, state, minute)
        changes += more
    return state, changes


def step(rules: tuple[Rule, ...], state: AlarmState, minute: Minute) -> Stepped:
    """Returns the state after one more minute, and the changes in the order of time.

    A minute that is not after the last one is left out: it was looked at before.
    """
    if state.last_s is not None and minute.start_s <= state.last_s:
        return state, []
    state, changes = forget(rules, state, minute.end_s)
    for each in [*_empty_between(state.last_s, minute.start_s), minute]:
        state, more = _look(rules, state, each)
        changes += more
    state, more = _request_came(rules, state, minute)
    changes += more
    # Stable: what a rule did at one time stays in order.
    return replace(state, last_s=minute.start_s), sorted(changes, key=lambda change: change.at_s)


def idle(rules: tuple[Rule, ...], state: AlarmState, idle_s: float) -> Stepped:
    """Returns the absences that have begun if no request has come for `idle_s` after the newest one.

    Minutes that are not closed may have requests, so a silence begins with the newest request, not with
    the last minute.
    """
    times_s = [each for each in (state.last_s, state.newest_s) if each is not None]
    if not times_s:
        return state, []
    newest_s = max(times_s)
    return _absences(rules, state, newest_s // MINUTE_S * MINUTE_S, newest_s + int(idle_s))


def forget(rules: tuple[Rule, ...], state: AlarmState, at_s: int) -> Stepped:
    """Ends the alarms of rules that are no longer there."""
    names = {rule.name for rule in rules}
    gone = {name: each for name, each in state.rules.items() if name not in names}
    changes = [
        _change(name, at_s, each.since_s, None, None, begins=False)
        for name, each in gone.items()
        if each.since_s is not None
    ]
    kept = {name: each for name, each in state.rules.items() if name in names}
    return replace(state, rules=kept), changes


def _empty_between(last_s: int | None, next_s: int) -> Iterator[Minute]:
    if last_s is None:
        return
    first_s = last_s + MINUTE_S
    for start_s in range(first_s, min(next_s, first_s + EMPTY_MINUTES_MAX * MINUTE_S), MINUTE_S):
        yield empty_minute(start_s)


def _look(rules: tuple[Rule, ...], state: AlarmState, minute: Minute) -> Stepped:
    """Thresholds and changes of one minute, with a request or without."""
    hour = tuple(each for each in state.hour if each.start_s >= minute.start_s - HOUR_S)
    states, changes = dict(state.rules), []
    for rule in rules:
        if isinstance(rule, Absence):
            continue
        value = _compared(rule, hour, minute)
        if value is None:
            continue
        before = states.get(rule.name, RuleState())
        after, change = _count(rule, before, value, minute)
        states[rule.name] = after
        if change is not None:
            changes.append(change)
    known = (*hour, minute) if minute.requests else hour
    return replace(state, hour=known, rules=states), changes


def _compared(rule: Threshold | Change, hour: tuple[Minute, ...], minute: Minute) -> float | None:
    """What the rule compares with its limits; None if the minute says nothing about it."""
    value = minute.value(rule.metric)
    if value is None or minute.requests < rule.least_requests:
        return None
    if isinstance(rule, Threshold):
        return value
    values = [found for each in hour if (found := each.value(rule.metric)) is not None]
    mean = sum(values) / len(values) if len(values) >= rule.least_minutes else 0.0
    return value / mean if mean else None


def _count(
    rule: Threshold | Change, state: RuleState, value: float, minute: Minute
) -> tuple[RuleState, AlarmChange | None]:
    limit = _broken_limit(rule, value)
    if limit is None:
        state = replace(state, holding=0, clear=min(state.clear + 1, rule.clear_minutes))
        if state.since_s is None or state.clear < rule.clear_minutes:
            return state, None
        shown = rule.above if rule.above is not None else rule.below
        change = _change(rule.name, minute.end_s, state.since_s, value, shown, begins=False)
        return replace(state, since_s=None), change
    state = replace(state, holding=min(state.holding + 1, rule.for_minutes), clear=0)
    if state.since_s is not None or state.holding < rule.for_minutes:
        return state, None
    change = _change(rule.name, minute.end_s, minute.end_s, value, limit, begins=True)
    return replace(state, since_s=minute.end_s), change


def _broken_limit(rule: Threshold | Change, value: float) -> float | None:
    if rule.above is not None and value > rule.above:
        return rule.above
    if rule.below is not None and value < rule.below:
        return rule.below
    return None


def _absences(rules: tuple[Rule, ...], state: AlarmState, last_s: int, now_s: int) -> Stepped:
    """Begins the absences that are due by `now_s`, which is not after the next request.

    `last_s` is the minute with the newest request before them.
    """
    states, changes = dict(state.rules), []
    for rule in rules:
        if not isinstance(rule, Absence) or states.get(rule.name, RuleState()).since_s is not None:
            continue
        at_s = last_s + MINUTE_S * (1 + rule.minutes)
        if at_s <= now_s:
            states[rule.name] = RuleState(since_s=at_s)
            minutes = float(rule.minutes)
            changes.append(_change(rule.name, at_s, at_s, minutes, minutes, begins=True))
    return replace(state, rules=states), changes


def _request_came(rules: tuple[Rule, ...], state: AlarmState, minute: Minute) -> Stepped:
    """Begins the absences that lie before the minute, and ends those that do not lie behind it."""
    empty = 0
    changes: list[AlarmChange] = []
    if state.last_s is not None:
        empty = (minute.start_s - state.last_s) // MINUTE_S - 1
        state, changes = _absences(rules, state, state.last_s, minute.start_s)
    states = dict(state.rules)
    for rule in rules:
        since_s = states.get(rule.name, RuleState()).since_s
        if not isinstance(rule, Absence) or since_s is None:
            continue
        # Of a silence by the clock the minutes before it are closed later; they say nothing against it.
        if minute.start_s >= since_s - MINUTE_S * rule.minutes:
            # By the clock it may have begun later than a request that was on its way.
            at_s = max(minute.end_s, since_s)
            limit = float(rule.minutes)
            changes.append(_change(rule.name, at_s, since_s, float(empty), limit, begins=False))
            states[rule.name] = RuleState()
    return replace(state, rules=states), changes


def _change(
    rule: str, at_s: int, since_s: int, value: float | None, limit: float | None, *, begins: bool
) -> AlarmChange:
    return AlarmChange(
        rule=rule, begins=begins, at_s=at_s, since_s=since_s, value=value, limit=limit
    )
