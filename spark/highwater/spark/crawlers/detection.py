"""Sessions as Spark's state: `sessions` for each client of a stream.

`applyInPandasWithState` keeps a session for each client until it is over by the watermark. It is not
`transformWithStateInPandas`, which needs RocksDB and another process for each task to reach its state,
for no more than this.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupStateTimeout

from highwater.spark.crawlers.sessions import (
    Limits,
    Session,
    SessionChange,
    end,
    observe,
    over_ms,
)
from highwater.spark.durations import for_spark

STATE_SCHEMA: Final = (
    "start_ms bigint, last_ms bigint, requests bigint, detected_ms bigint, recent_ms array<bigint>"
)
CHANGE_SCHEMA: Final = (
    "client string, seq int, detected boolean, at_ms bigint, start_ms bigint, requests bigint"
)
_COLUMNS: Final = ("client", "seq", "detected", "at_ms", "start_ms", "requests")


def detect(events: DataFrame, limits: Limits, *, late_s: int) -> DataFrame:
    """Returns the changes of all clients: the columns of `CHANGE_SCHEMA`.

    `seq` orders a client's changes within a batch. Requests more than `late_s` behind the newest one may
    be left out.
    """
    timed = events.withWatermark("time", for_spark(late_s)).select(
        "client", "time", f.unix_millis("time").alias("time_ms")
    )
    return timed.groupBy("client").applyInPandasWithState(
        step_of(limits), CHANGE_SCHEMA, STATE_SCHEMA, "update", GroupStateTimeout.EventTimeTimeout
    )


def step_of(
    limits: Limits,
) -> Callable[[tuple[Any, ...], Iterable[pd.DataFrame], Any], Iterator[pd.DataFrame]]:
    """Returns the function that Spark calls once a batch for a client that has requests, or whose time is up."""

    def step(
        key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        session = _session(state.get) if state.exists else None
        if state.hasTimedOut:
            changes = end(limits, session) if session is not None else []
            state.remove()
        else:
            times_ms = sorted(int(time_ms) for frame in frames for time_ms in frame["time_ms"])
            session, changes = observe(limits, session, times_ms)
            if session is not None:
                state.update(_row(session))
                # Spark refuses a time that the watermark has passed.
                least_ms = state.getCurrentWatermarkMs() + 1
                state.setTimeoutTimestamp(max(over_ms(limits, session), least_ms))
        if changes:
            yield _frame(str(key[0]), changes)

    return step


def _session(row: tuple[Any, ...]) -> Session:
    start_ms, last_ms, requests, detected_ms, recent_ms = row
    return Session(
        start_ms=start_ms,
        last_ms=last_ms,
        requests=requests,
        detected_ms=detected_ms,
        recent_ms=tuple(recent_ms),
    )


def _row(session: Session) -> tuple[int, int, int, int | None, list[int]]:
    return (
        session.start_ms,
        session.last_ms,
        session.requests,
        session.detected_ms,
        list(session.recent_ms),
    )


def _frame(client: str, changes: list[SessionChange]) -> pd.DataFrame:
    rows = [
        (client, seq, change.detected, change.at_ms, change.start_ms, change.requests)
        for seq, change in enumerate(changes)
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def entries(changes: DataFrame) -> DataFrame:
    """Returns `key` (the client) and `value`, JSON; null, a tombstone, when the session is over.

    Of several changes in the batch only the last one counts for whoever reads the list.
    """
    latest = Window.partitionBy("client").orderBy(f.desc("seq"))
    entry = f.to_json(
        f.struct(
            f.col("client"),
            (f.col("at_ms") / 1000).cast("bigint").alias("since"),
            (f.col("start_ms") / 1000).cast("bigint").alias("session_start"),
            f.col("requests"),
        )
    )
    return (
        changes.withColumn("newest", f.row_number().over(latest))
        .where(f.col("newest") == 1)
        .select(f.col("client").alias("key"), f.when(f.col("detected"), entry).alias("value"))
    )


def history(changes: DataFrame) -> DataFrame:
    """Returns all changes with times as timestamps: client, state, at, session_start, requests."""
    return changes.select(
        "client",
        f.when(f.col("detected"), "begin").otherwise("end").alias("state"),
        f.timestamp_millis("at_ms").alias("at"),
        f.timestamp_millis("start_ms").alias("session_start"),
        "requests",
    )
