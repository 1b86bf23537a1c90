r"""Apache's combined log format, read by one expression that Python and Spark (Java) both run.

    127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.0" 200 2326 "referrer" "agent"

Source: Apache HTTP Server, "Log Files", which also says that a quote inside a quoted field is
written as \". All fields up to the number of bytes must be there; the referrer and the agent are
ignored, so a line that is cut off in them still counts.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

LINE: Final = (
    r"^(\S+) (\S+) (\S+) \[([^\]]+)\] "
    # Possessive quantifiers: Java's matcher recurses for each turn of any other group, and a
    # long field would overflow its stack.
    r'"([^"\\]*+(?:\\.[^"\\]*+)*+)" '
    r"([0-9]{3}) ([0-9]{1,18}|-)(?: |$)"
)
"""The expression; groups as numbered below."""

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
    except ValueError:
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
