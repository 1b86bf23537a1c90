"""A line on a terminal while Spark works: tasks done, rows read, how fast, and what is left."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

_INTERVAL_S: Final = 1.0
_JOIN_S: Final = 5.0


class Aim:
    """How many offsets the job is to read, as soon as it knows. Written by the job, read by the line's thread."""

    def __init__(self) -> None:
        self.offsets: int | None = None

    def set(self, offsets: int) -> None:
        """Says how many offsets."""
        self.offsets = offsets


class Stages:
    """Tasks and rows of the stages that were seen at work; one thread owns it.

    Rows are those that Spark's tasks have told: when they end, and every ten seconds before. Spark's connectors
    do not all count what they read; then it is what tasks have written.
    """

    def __init__(self) -> None:
        self.tasks: list[tuple[int, int]] = []
        self._rows: dict[int, int] = {}

    def look(self, spark: SparkSession) -> None:
        """Asks Spark."""
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 # The public tracker knows no rows.
        active = context.sc().statusStore().activeStages()
        stages = [active.apply(index) for index in range(active.size())]
        self.tasks = [(each.numCompleteTasks(), each.numTasks()) for each in stages]
        self._rows |= {
            each.stageId(): max(each.inputRecords(), each.outputRecords()) for each in stages
        }

    @property
    def rows(self) -> int:
        """Rows read so far, by stages that have ended, too."""
        return sum(self._rows.values())


@contextmanager
def shown(spark: SparkSession, what: str) -> Iterator[Aim]:
    """Keeps the last line of the terminal current; does nothing if standard error is none."""
    aim = Aim()
    if not sys.stderr.isatty():
        yield aim
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(spark, what, aim, ended), daemon=True)
    thread.start()
    try:
        yield aim
    finally:
        ended.set()
        thread.join(_JOIN_S)
        sys.stderr.write("\r\x1b[K")


def _show(spark: SparkSession, what: str, aim: Aim, ended: threading.Event) -> None:
    stages = Stages()
    started = time.monotonic()
    while not ended.wait(_INTERVAL_S):
        stages.look(spark)
        text = line(what, stages.tasks, stages.rows, aim.offsets, time.monotonic() - started)
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def line(
    what: str, tasks: list[tuple[int, int]], rows: int, offsets: int | None, seconds: float
) -> str:
    """Returns the line for (done, all) of each stage under way, and the rows read of so many offsets.

    Not every offset has a record, so that the lag may end above 0.
    """
    done, whole = (sum(each[index] for each in tasks) for index in (0, 1))
    rate = rows / max(seconds, 0.001)
    read = f", {rows:,} rows ({rate:,.0f} rows/s)" if rows else ""
    lag = "" if offsets is None else f", lag {max(0, offsets - rows):,} of {offsets:,} offsets"
    return f"{what}: {done} of {whole} tasks{read}{lag}, {seconds:.0f} s"
