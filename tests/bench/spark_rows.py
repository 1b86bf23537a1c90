"""The rows of the Spark measurements: their names, their data, and the sections they are published in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from tests.bench.document import Section
from tests.bench.spark_topics import Data

_TARGET = "bench-spark"
LATENCY = "stream/latency"
LARGEST_RATE = "stream/largest-rate"


class Kind(StrEnum):
    """What a row measures; the first part of its name."""

    READ = "read"
    LOAD = "load"
    STREAM = "stream"
    WORKERS = "workers"
    MIRROR = "mirror"


SECTIONS = {
    Kind.READ: Section(name="Spark's batch read", target=_TARGET),
    Kind.LOAD: Section(name="Spark's loads", target=_TARGET),
    Kind.STREAM: Section(name="Spark's streams", target=_TARGET),
    Kind.WORKERS: Section(name="Spark's workers", target=_TARGET),
    Kind.MIRROR: Section(name="mirrors", target=_TARGET),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. `data` is the topic it reads, None if it writes its own."""

    name: str
    kind: Kind
    data: Data | None = None
    table_format: str = ""
    workers: int = 0


ROWS = (
    Row(name="read/plain", kind=Kind.READ, data=Data.PLAIN),
    *(
        Row(name=f"load/{form}/{data}", kind=Kind.LOAD, data=data, table_format=form)
        for data in Data
        for form in ("parquet", "delta")
    ),
    *(
        Row(name=f"workers/{count}", kind=Kind.WORKERS, data=Data.PLAIN, workers=count)
        for count in (1, 2)
    ),
    Row(name=LATENCY, kind=Kind.STREAM),
    Row(name=LARGEST_RATE, kind=Kind.STREAM),
    Row(name="mirror/from-kafka", kind=Kind.MIRROR),
)


def select(patterns: Iterable[str]) -> tuple[Row, ...]:
    """Rows whose name matches a shell pattern. Raises ValueError if a pattern matches none."""
    chosen: set[str] = set()
    for pattern in patterns:
        found = {row.name for row in ROWS if fnmatchcase(row.name, pattern)}
        if not found:
            raise ValueError(f"no row is named like {pattern!r}")
        chosen |= found
    return tuple(row for row in ROWS if row.name in chosen)


def cut_sections(rows: Iterable[Row]) -> str:
    """Names of the sections of which some rows were chosen and others were not; empty if there is none."""
    chosen = {row.name for row in rows}
    kinds = {row.kind for row in ROWS if row.name in chosen}
    cut = {row.kind for row in ROWS if row.kind in kinds and row.name not in chosen}
    return ", ".join(SECTIONS[kind].name for kind in sorted(cut))
