r"""Apache's combined log format, read by one expression that Python and Spark (Java) both run.

    127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 2326 "referrer" "agent"

Source: Apache HTTP Server, "Log Files", which also says that a quote inside a quoted field is
written as \". All fields up to the number of bytes must be there; the referrer and the agent are
ignored, so a line that is cut off in them still counts. Times are of the years 1 to 9999, in their own
zone and in UTC, since Python has no others; sizes have at most 13 digits.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

LINE: Final = (
    r"^(\S+) (\S+) (\S+) "
    # Java's formatter would take the year 0, and years of five digits behind a plus.
    r"\[([0-9]{2}/[A-Za-z]{3}/(?!0000)[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\] "
    # Possessive quantifiers: Java's matcher recurses for each turn of any other group, and a
    # long field would overflow its stack.
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)" '
    r"([0-9]{3}) ([0-9]{1,13}|-)(?: |$)"
)
"""The expression; groups as numbered below."""

SIZE_BYTES_MAX: Final = 10**13 - 1
"""No answer has 10 TB. Sums of sizes are bigint, and one that overflows ends a stream at every start:
there is room for 900 000 of the largest in a minute of `watch`."""

SECONDS_MIN: Final = -62_135_596_800
"""The first second of the year 1, in seconds since 1970."""

SECONDS_MAX: Final = 253_402_300_799
"""The last second of the year 9999."""

HOST_GROUP: Final = 1
USER_GROUP: Final = 3
TIME_GROUP: Final = 4
REQUEST_GROUP: Final = 5
STATUS_GROUP: Final = 6
BYTES_GROUP: Final = 7

SPARK_TIME: Final = "dd/MMM/yyyy:HH:mm:ss Z"
"""The format of times, in Spark's notation."""

_COMPILED: Final = re.compile(LINE, re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `path` is without the query; `size_bytes` is 0 where the log has a dash."""

    time: datetime
    path: str
    status: int
    size_bytes: int


def parse(line: str) -> Request | None:
    """Returns the request in a line, None if the line is not in the format."""
    found = _COMPILED.match(line)
    if found is None:
        return None
    try:
        time = datetime.strptime(found[TIME_GROUP], "%d/%b/%Y:%H:%M:%S %z")
        # A zone can move the first and the last hours out of these years.
        time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    request = found[REQUEST_GROUP]
    words = request.split(" ")
    target = words[1] if len(words) > 1 else request
    size = found[BYTES_GROUP]
    return Request(
        time=time,
        path=target.partition("?")[0],
        status=int(found[STATUS_GROUP]),
        size_bytes=0 if size == "-" else int(size),
    )
