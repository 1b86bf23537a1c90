"""The lines of an access log with their times, and the same line at another time."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from highwater.model.errors import UsageError
from highwater.spark.access_events import parse_line

MS: Final = 1000
_TIME: Final = re.compile(r"\[[^\]]+\]")
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip


class SampleUnusable(UsageError):
    """The file has no line in combined log format."""

    reason = "SAMPLE_UNUSABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line, its time in ms since 1970, and its client, which is the record's key."""

    time_ms: int
    client: str
    text: str

    @property
    def value(self) -> bytes:
        """The record's value: the line as it is in the file, also where that is not UTF-8."""
        return self.text.encode("utf-8", "surrogateescape")


def read_sample(lines: Iterable[str], name: str) -> tuple[LogLine, ...]:
    """Returns the lines in the order of their times; others are left out. Raises SampleUnusable.

    Lines of the same time keep their order in the file.
    """
    found = []
    for text in lines:
        event = parse_line(text)
        if event is not None:
            time_ms = int(event.time.timestamp()) * MS
            found.append(LogLine(time_ms=time_ms, client=event.client, text=text))
    if not found:
        raise SampleUnusable(f"{name} has no line in combined log format")
    return tuple(sorted(found, key=lambda line: line.time_ms))


def at_time(line: LogLine, time_ms: int) -> LogLine:
    """Returns the line with another time, in UTC, in its text and beside it."""
    time = datetime.fromtimestamp(time_ms // MS, UTC)
    # Not strftime: the names of months are English in logs, whatever the locale is.
    text = f"[{time:%d}/{_MONTHS[time.month - 1]}/{time:%Y:%H:%M:%S} +0000]"
    return LogLine(
        time_ms=time_ms, client=line.client, text=_TIME.sub(lambda _: text, line.text, count=1)
    )
