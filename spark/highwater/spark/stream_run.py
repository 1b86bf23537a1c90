"""One streaming query from its start to its end: batches into a sink, progress, a clean stop.

A batch is computed once, also if the sink has it already: state that a batch leads to is kept only
when the batch is computed, and the next batch stands on it.
"""

import json
import time
from collections.abc import Callable
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

    def run(self, frame: DataFrame) -> None:
        """Returns when the query has ended.

        Raises what the sink raised, else StreamingQueryException.
        """
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
        query = writer.start()
        try:
            while query.isActive and not self._stopping():
                query.awaitTermination(LOOK_S)
                self._look(query)
            if query.isActive:
                self._end_batch(query)
        except StreamingQueryException as error:
            if self._failure is None:
                raise
            raise self._failure from error
        finally:
            query.stop()
        self._look(query)
        failed = query.exception()
        if failed is not None and not self._stopping():
            raise self._failure or failed

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

    def _look(self, query: Any) -> None:
        for report in query.recentProgress:
            document = json.loads(report.json)
            # Triggers that found nothing report, too, with the number of the batch to come.
            if int(document["batchId"]) > self._told and "addBatch" in document["durationMs"]:
                progress = read_progress(document)
                self._told = progress.batch
                self._tell(progress)
        if not self._in_batch:
            self._idle(time.monotonic() - self._busy_s)

    def _end_batch(self, query: Any) -> None:
        deadline_s = time.monotonic() + STOP_WAIT_S
        while query.status["isTriggerActive"] and time.monotonic() < deadline_s:
            query.awaitTermination(LOOK_S)
