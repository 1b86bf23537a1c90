"""A line on a terminal while Spark works: tasks done, and how far that is in offsets."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

_INTERVAL_S: Final = 1.0
_JOIN_S: Final = 5.0


@contextmanager
def shown(spark: SparkSession, what: str) -> Iterator[None]:
    """Keeps the last line of the terminal current; does nothing if standard error is none."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(spark, what, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_S)
        sys.stderr.write("\r\x1b[K")


def _show(spark: SparkSession, what: str, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    started = time.monotonic()
    while not ended.wait(_INTERVAL_S):
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        tasks = [(each.numCompletedTasks, each.numTasks) for each in stages if each is not None]
        sys.stderr.write(f"\r\x1b[K{line(what, tasks, time.monotonic() - started)}")
        sys.stderr.flush()


def line(what: str, tasks: list[tuple[int, int]], seconds: float) -> str:
    """Returns the line for (done, all) of each stage under way."""
    done, whole = (sum(each[index] for each in tasks) for index in (0, 1))
    return f"{what}: {done} of {whole} tasks, {seconds:.0f} s"
