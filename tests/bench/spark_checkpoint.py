"""When Spark committed the batches of a stream, from its checkpoint, and how old the records were then.

A batch is committed when its file in `commits` is there; its offsets are the last line of the file in
`offsets` with the same name (Spark's OffsetSeqLog, version 1).
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class NotCommitted(RuntimeError):
    """A record is in no committed batch."""


class Created(NamedTuple):
    """A record of the source, created at `time_ms` since 1970."""

    partition: int
    offset: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A committed micro-batch: it ends before the offsets `ends`; `committed_ms` is since 1970."""

    number: int
    committed_ms: float
    ends: Mapping[int, int]


def read_batches(checkpoint: Path) -> list[Batch]:
    """All committed batches, in order; none if the query has not committed any."""
    commits = [file for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()]
    return [
        Batch(
            number=int(file.name),
            committed_ms=file.stat().st_mtime_ns / 1e6,
            ends=ends_of((checkpoint / "offsets" / file.name).read_text()),
        )
        for file in sorted(commits, key=lambda each: int(each.name))
    ]


def ends_of(text: str) -> dict[int, int]:
    """The next offset of each partition of the one topic that a file of `offsets` names."""
    (partitions,) = json.loads(text.splitlines()[-1]).values()
    return {int(partition): int(offset) for partition, offset in partitions.items()}


def committed(batches: Sequence[Batch]) -> int:
    """How many records of a topic that begins at offset 0 are in committed batches."""
    return sum(batches[-1].ends.values()) if batches else 0


def latencies_ms(records: Iterable[Created], batches: Sequence[Batch]) -> list[float]:
    """The time from each record's creation to the commit of its batch. Raises NotCommitted."""
    # Of each partition, where the batches end: a record is in the first one that ends behind it.
    ends: dict[int, list[int]] = {}
    found = []
    for record in records:
        if record.partition not in ends:
            ends[record.partition] = [batch.ends.get(record.partition, 0) for batch in batches]
        index = bisect_right(ends[record.partition], record.offset)
        if index == len(batches):
            raise NotCommitted(f"offset {record.offset} of partition {record.partition}")
        found.append(batches[index].committed_ms - record.time_ms)
    return found


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed. Raises ValueError without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]
