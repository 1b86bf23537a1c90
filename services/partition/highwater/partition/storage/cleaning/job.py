"""The messages between the node and its cleaning child process: lines of JSON.

* to the child: one CleaningJob;
* to the node: Progress, at least every few seconds; GroupWritten for every group of segments
  whose new files are on disk; at the end CleaningDone or CleaningFailed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

LINE_BYTES_MAX: Final = 64 << 20
"""A job lists every segment and every active producer, about 30 bytes each, and every aborted
transaction, 46 bytes each."""

UNREADABLE: Final = "unreadable"
"""This log cannot be cleaned: it is damaged, or one batch is too large."""
IO: Final = "io"
"""The system reported an error; the next attempt may succeed."""
BUG: Final = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """Sealed segments of one log, all of them below its high watermark, oldest first."""

    directory: str
    segments: Sequence[tuple[int, int, int]]
    """(base offset, next segment's base offset, bytes) of each segment."""
    index_bytes: Sequence[int]
    """The size of each segment's larger index."""
    first_dirty: int
    """Where the last pass ended."""
    now_ms: int
    delete_retention_ms: int
    keys_max: int
    """Limit of the offset map."""
    segment_bytes: int
    index_bytes_max: int
    index_interval: int
    producers: Mapping[int, int]
    """Producer id -> last offset of the producer's newest batch."""
    marked_producers: Mapping[int, int] = field(default_factory=dict)
    """Producer id -> epoch of producers of which only a marker tells anything."""
    aborted: str = ""
    """All entries of the log's transaction indexes, in base64."""
    io_bytes_per_s: int = 0
    """Limit for reading and writing together; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The child is working."""

    nbytes: int
    """Bytes read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWritten:
    """`<bases[0]>.*.cleaned` is ready to replace these adjacent segments."""

    bases: Sequence[int]
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningDone:
    """The end of a pass. Bytes are those of `.log` files; 0 if nothing had to change."""

    next_dirty: int
    """Everything before this offset is clean."""
    records_kept: int
    records_dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFailed:
    """The end of a failed pass."""

    kind: str
    error: str


Report = Progress | GroupWritten | CleaningDone | CleaningFailed

_REPORTS: Final[dict[str, type[Any]]] = {
    "progress": Progress,
    "group": GroupWritten,
    "done": CleaningDone,
    "failed": CleaningFailed,
}
_NAMES: Final = {report: name for name, report in _REPORTS.items()}


def encode_job(job: CleaningJob) -> bytes:
    """Encode a job as one line."""
    return json.dumps(asdict(job)).encode() + b"\n"


def decode_job(line: bytes) -> CleaningJob:
    """The inverse of `encode_job`; raises ValueError, KeyError or TypeError."""
    fields = json.loads(line)
    fields["segments"] = [tuple(segment) for segment in fields["segments"]]
    for name in ("producers", "marked_producers"):
        fields[name] = {int(key): value for key, value in fields[name].items()}
    return CleaningJob(**fields)


def encode_report(report: Report) -> bytes:
    """Encode a report as one line."""
    return json.dumps({"report": _NAMES[type(report)], **asdict(report)}).encode() + b"\n"


def decode_report(line: bytes) -> Report:
    """The inverse of `encode_report`; raises ValueError."""
    try:
        fields = json.loads(line)
        made: Report = _REPORTS[fields.pop("report")](**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no report: {line[:200]!r}") from error
    return made
