"""The results of the report job, as values and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

REPORT_FILE: Final = "report.json"
"""The report's file in the job's output directory."""

CHART_FILE: Final = "access_log.png"
"""The chart's file in the same directory."""

PAGE_FILE: Final = "access_log.html"
"""The page's file in the same directory; it refers to no other file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourTraffic:
    """Traffic of one hour, from `start` on (UTC).

    Of the requests, `client_errors` were answered with a status of 400 to 499, `server_errors`
    with one of 500 or above.
    """

    start: datetime
    requests: int
    size_bytes: int
    client_errors: int
    server_errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTraffic:
    """Traffic of one path, without its query."""

    path: str
    requests: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """Requests that were answered with one status code."""

    status: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole result.

    Of all `records`, `unparsed` are not in the log format and are not counted anywhere else.
    `hours` is ordered by time, without hours that had no request; `top_paths` and
    `status_codes` are ordered by requests, most first, then by name. `topic` is empty for all topics of a
    `table`, which is None where the topic itself was read.
    """

    topic: str
    table: str | None = None
    records: int
    unparsed: int
    hours: tuple[HourTraffic, ...]
    top_paths: tuple[PathTraffic, ...]
    status_codes: tuple[StatusCount, ...]

    @property
    def title(self) -> str:
        """What the report is of."""
        if self.table is None:
            return f"Traffic in topic {self.topic}"
        topic = f", topic {self.topic}" if self.topic else ""
        return f"Traffic in table {self.table}{topic}"

    @property
    def requests(self) -> int:
        """Requests in all."""
        return sum(hour.requests for hour in self.hours)

    @property
    def size_bytes(self) -> int:
        """Bytes sent in all."""
        return sum(hour.size_bytes for hour in self.hours)

    @property
    def errors(self) -> int:
        """Requests that were answered with an error, the client's or the server's."""
        return sum(hour.client_errors + hour.server_errors for hour in self.hours)

    @property
    def busiest(self) -> HourTraffic | None:
        """The first hour of those with most requests; None when there are none."""
        return max(self.hours, key=lambda hour: hour.requests, default=None)


def to_document(report: Report) -> dict[str, Any]:
    """Returns the report as values of JSON; times are seconds since 1970."""
    document = asdict(report)
    for hour in document["hours"]:
        hour["start"] = int(hour["start"].timestamp())
    return document


def to_json(report: Report) -> str:
    """Returns `to_document` as an indented text."""
    return json.dumps(to_document(report), indent=1) + "\n"


def from_json(text: str) -> Report:
    """Returns the report that `to_json` wrote. Raises ValueError for anything else."""
    try:
        document: dict[str, Any] = json.loads(text)
        return Report(
            topic=str(document["topic"]),
            # Earlier releases read topics only.
            table=document.get("table"),
            records=int(document["records"]),
            unparsed=int(document["unparsed"]),
            hours=tuple(
                HourTraffic(
                    start=datetime.fromtimestamp(hour["start"], UTC),
                    requests=int(hour["requests"]),
                    size_bytes=int(hour["size_bytes"]),
                    client_errors=int(hour["client_errors"]),
                    server_errors=int(hour["server_errors"]),
                )
                for hour in document["hours"]
            ),
            top_paths=tuple(PathTraffic(**path) for path in document["top_paths"]),
            status_codes=tuple(StatusCount(**status) for status in document["status_codes"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a report: {error!r}") from error
