"""The alarms' state as the note of a commit, and changes as values of records.

Example of a note: {"version": 1, "batch": 3, "last_s": 0, "newest_s": 9, "hour": [...], "rules": {"errors": {...}}}.
"""

import json
from dataclasses import asdict
from typing import Final

from highwater.model.errors import UsageError
from highwater.spark.watch.alarms import AlarmChange, AlarmState, RuleState
from highwater.spark.watch.minute import Minute

VERSION: Final = 1


class AlarmsUnreadable(UsageError):
    """The table of alarms has a note that this version did not write."""

    reason = "ALARMS_UNREADABLE"


def to_note(state: AlarmState, batch: int) -> str:
    """Returns the state after `batch` as one line; -1 before the first batch."""
    return json.dumps({"version": VERSION, "batch": batch, **asdict(state)})


def from_note(text: str) -> tuple[AlarmState, int]:
    """Returns what `to_note` wrote. Raises AlarmsUnreadable."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise AlarmsUnreadable(f"alarms of version {document['version']}, not {VERSION}")
        state = AlarmState(
            last_s=document["last_s"],
            # Notes of earlier releases do not have it.
            newest_s=document.get("newest_s"),
            hour=tuple(Minute(**minute) for minute in document["hour"]),
            rules={name: RuleState(**state) for name, state in document["rules"].items()},
        )
        return state, int(document["batch"])
    except (ValueError, TypeError, KeyError) as error:
        raise AlarmsUnreadable(f"the table of alarms has an unknown note: {error!r}") from error


def to_value(change: AlarmChange) -> str:
    """Returns a change as the value of a record, whose key is the rule's name."""
    return json.dumps(
        {
            "rule": change.rule,
            "state": "begin" if change.begins else "end",
            "at": change.at_s,
            "since": change.since_s,
            "value": change.value,
            "limit": change.limit,
        }
    )
