"""Streaming queries from their start to their end: batches into a sink, progress, a clean stop.

A batch is computed once, also if the sink has it already: state that a batch leads to is kept only
when the batch is computed, and the next batch stands on it.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from highwater.spark.stream_progress import StreamProgress, read_progress

LOOK_S: Final = 1
"""How often signals and progress are looked at."""

STOP_WAIT_S: Final = 60.0
"""How long a stop waits for the batch under way; then it is given up, and repeated at the restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a query runs.

    `checkpoint` is Spark's directory. `once` reads what is there at the start and ends; otherwise a
    batch begins every `every_s` seconds, or when the last one has ended, if that is later.
    """

    name: str
    checkpoint: str
    once: bool
    every_s: float
    output_mode: str


class StreamRun:
    """Runs one query. `sink` gets the batches' rows and numbers, in order, one at a time."""

    def __init__(
        self,
        options: RunOptions,
        sink: Callable[[DataFrame, int], None],
        *,
        stopping: Callable[[], bool],
        tell: Callable[[StreamProgress], None],
        idle: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Call `idle` now and then with the seconds since the last batch: no record has come since."""
        self._options = options
        self._sink = sink
        self._stopping = stopping
        self._tell = tell
        self._idle = idle
        self._failure: Exception | None = None
        self._told = -1
        self._in_batch = False
        self._busy_s = time.monotonic()
        # Untyped: PySpark's query, or what a test puts in its place.
        self._query: Any = None

    def run(self, frame: DataFrame) -> None:
        """Returns when the query has ended.

        Raises what the sink raised, else StreamingQueryException.
        """
        run_together([(self, frame)], stopping=self._stopping)

    def start(self, frame: DataFrame) -> None:
        """Starts the query."""
        writer = (
            frame.writeStream.queryName(self._options.name)
            .option("checkpointLocation", self._options.checkpoint)
            .outputMode(self._options.output_mode)
            .foreachBatch(self._batch)
        )
        if self._options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(
                processingTime=f"{int(self._options.every_s * 1000)} milliseconds"
            )
        self._query = writer.start()

    @property
    def is_active(self) -> bool:
        """Whether the query goes on."""
        return bool(self._query.isActive)

    def wait(self) -> None:
        """Waits a moment, or for the query's end. Raises what ended it."""
        try:
            self._query.awaitTermination(LOOK_S)
        except StreamingQueryException as error:
            if self._failure is None:
                raise
            raise self._failure from error

    def look(self) -> None:
        """Tells progress, and calls `idle`. Raises what ended the query, unless it was to stop."""
        for report in self._query.recentProgress:
            document = json.loads(report.json)
            # Triggers that found nothing report, too, with the number of the batch to come.
            if int(document["batchId"]) > self._told and "addBatch" in document["durationMs"]:
                progress = read_progress(document)
                self._told = progress.batch
                self._tell(progress)
        if not self._in_batch:
            self._idle(time.monotonic() - self._busy_s)
        failed = self._query.exception()
        if failed is not None and not self._stopping():
            raise self._failure or failed

    def end_batch(self) -> None:
        """Waits for the batch under way, up to a limit."""
        deadline_s = time.monotonic() + STOP_WAIT_S
        while self._query.status["isTriggerActive"] and time.monotonic() < deadline_s:
            self.wait()

    def stop(self) -> None:
        """Ends the query at once."""
        self._query.stop()

    def _batch(self, rows: DataFrame, number: int) -> None:
        self._in_batch = True
        rows = rows.persist()
        try:
            rows.count()
            self._sink(rows, number)
        except Exception as error:
            # Spark would pass on its text only.
            self._failure = error
            raise
        finally:
            rows.unpersist()
            self._busy_s = time.monotonic()
            self._in_batch = False


def run_together(
    runs: Sequence[tuple[StreamRun, DataFrame]], *, stopping: Callable[[], bool]
) -> None:
    """Runs several queries; returns when all have ended, or after their batches when asked to stop.

    Raises what ended one of them, and stops the others.
    """
    started: list[StreamRun] = []
    try:
        for run, frame in runs:
            run.start(frame)
            started.append(run)
        while (active := [run for run in started if run.is_active]) and not stopping():
            active[0].wait()
            for run in started:
                run.look()
        for run in started:
            if run.is_active:
                run.end_batch()
    finally:
        for run in started:
            run.stop()
    for run in started:
        run.look()
