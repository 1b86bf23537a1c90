r"""One request of a web server as the streaming jobs see it: from a line in combined log format.

`combined_log` has the fields that must be there; this adds the client, which is the line's first
field, and the referrer, which may be missing or cut off.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from highwater.spark import combined_log

LINE: Final = combined_log.LINE + r'(?:"([^"\\]*+(?:\\.[^"\\]*+)*+)")?'
"""`combined_log.LINE` and, as one group more, the referrer; Python and Java both run it."""

CLIENT_GROUP: Final = 1
REFERRER_GROUP: Final = 8

REFERRER: Final = r"^https?://([^/?#:]+)(?::[0-9]+)?(/[^?#]*)?"
"""Host and path of a referrer; a path that is missing is the server's root."""

_COMPILED: Final = re.compile(LINE, re.ASCII)
_REFERRER: Final = re.compile(REFERRER, re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessEvent:
    """One request.

    `path` is without its query. `referrer_host` and `referrer_path` are empty where the line has no
    referrer with a host. `latency_ms` is None: the format has none, JSON records may.
    """

    time: datetime
    client: str
    path: str
    status: int
    size_bytes: int
    referrer_host: str = ""
    referrer_path: str = ""
    latency_ms: float | None = None


def parse_line(line: str) -> AccessEvent | None:
    """Returns the request in a line, None if the line is not in the format.

    It is what `events.of_records` computes in Spark, for tests and for `replay`.
    """
    request = combined_log.parse(line)
    found = _COMPILED.match(line)
    if request is None or found is None:
        return None
    source = _REFERRER.match(found[REFERRER_GROUP] or "")
    return AccessEvent(
        time=request.time.astimezone(UTC),
        client=found[CLIENT_GROUP],
        path=request.path,
        status=request.status,
        size_bytes=request.size_bytes,
        referrer_host=source[1] if source else "",
        referrer_path=(source[2] or "/") if source else "",
    )
