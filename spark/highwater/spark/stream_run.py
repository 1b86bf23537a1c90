"""Streaming queries from their start to their end: batches into a sink, progress, a clean stop.

A batch is computed once, also if the sink has it already: state that a batch leads to is kept only
when the batch is computed, and the next batch stands on it.

A query that is to stop ends between two batches: the next one is refused before it is computed. Without a
pause between batches nobody could hit the moment at which none is under way.
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


class _Refused(Exception):
    """A batch that begins after the query was asked to stop; it ends the query, and nobody is told."""


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
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `idle` now and then with the seconds after the last batch in which no record came.

        The seconds in which records may wait for the next look at the topic do not count. `check` is called
        when a batch is computed, before the sink has it; what it raises ends the query.
        """
        self._options = options
        self._sink = sink
        self._stopping = stopping
        self._tell = tell
        self._idle = idle
        self._check = check
        self._failure: Exception | None = None
        self._told = -1
        self._in_batch = False
        self._is_refused = False
        self._is_given_up = False
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
            if self._is_refused:
                return
            if self._failure is None:
                raise
            raise self._failure from error

    def look(self) -> None:
        """Tells progress, and calls `idle`. Raises what ended the query, unless that was a stop."""
        for report in self._query.recentProgress:
            document = json.loads(report.json)
            # Triggers that found nothing report, too, with the number of the batch to come.
            if int(document["batchId"]) > self._told and "addBatch" in document["durationMs"]:
                progress = read_progress(document)
                self._told = progress.batch
                self._tell(progress)
        self._tell_idle()
        if self._failure is not None:
            raise self._failure
        failed = self._query.exception()
        if failed is not None and not self._stopping():
            raise failed

    def end_batch(self) -> None:
        """Waits for the batch under way, up to a limit; no other begins when the query is to stop."""
        deadline_s = time.monotonic() + STOP_WAIT_S
        while (
            self.is_active
            and self._query.status["isTriggerActive"]
            and time.monotonic() < deadline_s
        ):
            self.wait()

    def stop(self) -> None:
        """Ends the query at once."""
        self._is_given_up = True
        self._query.stop()

    def _tell_idle(self) -> None:
        # A trigger under way may find records, or wait for brokers that are away.
        if self._in_batch or self._query.status["isTriggerActive"]:
            return
        # The topic was looked at within this time; what came later may wait there.
        waiting_s = self._options.every_s
        self._idle(max(0.0, time.monotonic() - self._busy_s - waiting_s))

    def _batch(self, rows: DataFrame, number: int) -> None:
        if self._stopping():
            self._refuse(rows)
        self._in_batch = True
        rows = rows.persist()
        try:
            rows.count()
            self._check()
            self._sink(rows, number)
        except Exception as error:
            if not self._is_given_up:
                # Spark would pass on its text only.
                self._failure = error
            raise
        finally:
            rows.unpersist()
            self._busy_s = time.monotonic()
            self._in_batch = False

    def _refuse(self, rows: DataFrame) -> None:
        self._is_refused = True
        # To Spark it is an error, and it would write its stack to the log of a job that ends well.
        rows.sparkSession.sparkContext.setLogLevel("OFF")
        raise _Refused


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
