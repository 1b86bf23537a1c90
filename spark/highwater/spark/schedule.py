"""`--every 10m`: a job again and again, at fixed times from its start."""

import re
from collections.abc import Callable
from typing import Final

from highwater.model.errors import UsageError

_INTERVAL: Final = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class IntervalUnusable(UsageError):
    """An interval that is no number with a unit."""

    reason = "INTERVAL_UNUSABLE"


def seconds_of(text: str) -> int:
    """Returns the seconds of 30s, 10m, 2h or 1d. Raises IntervalUnusable."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise IntervalUnusable(f"an interval is a number with s, m, h or d, like 10m, not {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def repeat(
    turn: Callable[[], None],
    interval_s: int,
    *,
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Calls `turn` for ever; a turn that is late by whole intervals leaves these out."""
    due = now()
    while True:
        turn()
        due += interval_s
        if (late := now() - due) > 0:
            due += -(-late // interval_s) * interval_s
        sleep(max(0.0, due - now()))
