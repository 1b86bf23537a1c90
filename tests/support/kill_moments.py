"""Moments of a stream's batch at which its driver is killed, told by what has reached the disk.

    offsets     the batch is planned: its offsets are in the checkpoint
    files       its data files are in the table, the commit is not
    table       the table is committed
    other       so is another table, which a job may commit after it
    commits     the batch is done: Spark has written that down

The same moment in the next run may be one of the same batch, which is repeated, or of one after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from highwater.spark.checkpoint import STREAM
from tests.support.stream_jobs import commits, start_and_kill

DELAYS_S = (0, 0.1, 0.3, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillMoment:
    """`delay_s` after there is more of something on the disk than when the job was started."""

    name: str
    count: Callable[[], int]
    delay_s: float

    def kill(self, arguments: list[str], log: Path) -> None:
        """Starts a job and kills its driver then."""
        before = self.count()

        def reached() -> bool:
            if self.count() <= before:
                return False
            time.sleep(self.delay_s)
            return True

        start_and_kill(arguments, reached, log)


def kill_moments(
    checkpoint: Path, table: Path, *others: Path, delays_s: tuple[float, ...] = DELAYS_S
) -> list[KillMoment]:
    """All moments of a job with these tables, each delay with each of them."""
    counts: dict[str, Callable[[], int]] = {
        "offsets": lambda: _entries(checkpoint / STREAM / "offsets"),
        "files": lambda: len(list(table.glob("*.parquet"))),
        "table": partial(commits, table),
        **{f"other {other.name}": partial(commits, other) for other in others},
        "commits": lambda: _entries(checkpoint / STREAM / "commits"),
    }
    return [
        KillMoment(name=f"{name} + {delay_s} s", count=count, delay_s=delay_s)
        for delay_s in delays_s
        for name, count in counts.items()
    ]


def third_commit(table: Path) -> KillMoment:
    """The moment at which a table has three commits."""
    return KillMoment(name="third commit", count=lambda: commits(table) // 3, delay_s=0)


def _entries(directory: Path) -> int:
    """Spark's files for batches, whose names are numbers; beside them are checksums and drafts."""
    return sum(each.name.isdigit() for each in directory.glob("*"))
