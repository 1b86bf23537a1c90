"""Durations on the command line: `90 seconds`, `10 minutes`, `1 hour`, `2 days`, or `10m`."""

import re
from collections.abc import Mapping
from typing import Final

from highwater.model.errors import UsageError

_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"([0-9]{1,9}) ?(s|m|h|d|(?:second|minute|hour|day)s?)")


def parse_duration(text: str, option: str) -> int:
    """Returns the seconds, above 0. Raises UsageError, which names the option."""
    found = _DURATION.fullmatch(text.strip())
    seconds = int(found[1]) * _UNITS[found[2][0]] if found else 0
    if seconds == 0:
        raise UsageError(f"{option} wants a duration like '10 minutes', not {text!r}")
    return seconds


def for_spark(seconds: int) -> str:
    """Returns the duration in Spark's words."""
    return f"{seconds} seconds"
