"""Notes and values; tests/property takes notes of all kinds of states to text and back."""

from __future__ import annotations

import json

import pytest

from highwater.spark.watch.alarms import AlarmChange, AlarmState, RuleState
from highwater.spark.watch.minute import Minute
from highwater.spark.watch.state_text import AlarmsUnreadable, from_note, to_note, to_value

STATE = AlarmState(
    last_s=60,
    hour=(Minute(start_s=0, requests=1, latency_p50=1.5), Minute(start_s=60, requests=2)),
    rules={"r": RuleState(holding=1, since_s=60), "q": RuleState()},
)


def test_there_and_back():
    assert from_note(to_note(STATE, 7)) == (STATE, 7)
    assert from_note(to_note(AlarmState(), -1)) == (AlarmState(), -1)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"version": 2}', '{"version": 1}'])
def test_a_note_of_somebody_else(text: str):
    with pytest.raises(AlarmsUnreadable):
        from_note(text)


def test_the_value_of_a_record():
    change = AlarmChange(rule="r", begins=True, at_s=120, since_s=60, value=2.0, limit=1.0)
    assert json.loads(to_value(change)) == {
        "rule": "r", "state": "begin", "at": 120, "since": 60, "value": 2.0, "limit": 1.0,
    }  # fmt: skip
