"""What the node and the child process that cleans for it tell each other: lines of JSON.

* to the child: one CleaningJob;
* to the node: Progress, at least every few seconds, and GroupWritten for every group of segments
  whose new files are on disk; in the end CleaningDone or CleaningFailed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

LINE_BYTES_MAX: Final = 64 << 20
"""A job names every segment and every active producer; both take some 30 bytes."""

UNREADABLE: Final = "unreadable"
"""Cleaning this log cannot succeed: its data are damaged, or one batch is too large."""
IO: Final = "io"
"""The system refused something; it may work next time."""
BUG: Final = "bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """Sealed segments of one log, all of them below its high watermark, oldest first."""

    directory: str
    segments: Sequence[tuple[int, int, int]]
    """(base offset, offset that follows, bytes) of each."""
    index_bytes: Sequence[int]
    """The larger index of each."""
    first_dirty: int
    """Where the last pass has ended."""
    now_ms: int
    delete_retention_ms: int
    keys_max: int
    """Of the offset map."""
    segment_bytes: int
    index_bytes_max: int
    index_interval: int
    producers: Mapping[int, int]
    """Of every active producer the last offset of its newest batch."""
    io_bytes_per_s: int = 0
    """How fast to read and write, both together; 0 is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """It is alive."""

    nbytes: int
    """Read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWritten:
    """These neighbours are to give way to `<first of bases>.*.cleaned`."""

    bases: Sequence[int]
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningDone:
    """The end of a pass. Bytes are those of `.log` files; 0 where nothing had to change."""

    next_dirty: int
    """The offset map had no room for anything from here on, or there is nothing more."""
    records_kept: int
    records_dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFailed:
    """The end of a pass that did not work."""

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
    """One line."""
    return json.dumps(asdict(job)).encode() + b"\n"


def decode_job(line: bytes) -> CleaningJob:
    """The inverse of `encode_job`; ValueError, KeyError or TypeError if it is none."""
    fields = json.loads(line)
    fields["segments"] = [tuple(segment) for segment in fields["segments"]]
    fields["producers"] = {int(key): value for key, value in fields["producers"].items()}
    return CleaningJob(**fields)


def encode_report(report: Report) -> bytes:
    """One line."""
    return json.dumps({"report": _NAMES[type(report)], **asdict(report)}).encode() + b"\n"


def decode_report(line: bytes) -> Report:
    """The inverse of `encode_report`; ValueError if it is none."""
    try:
        fields = json.loads(line)
        made: Report = _REPORTS[fields.pop("report")](**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no report: {line[:200]!r}") from error
    return made
