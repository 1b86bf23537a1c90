"""The alarms' state in their table: each commit has changes as rows and the state behind them as its note.

The table is the state's only owner. A batch that comes again finds in the note that it was looked at;
one that was killed before the commit computes the same changes again from the same note. Versions count
commits, not batches: the clock makes changes, too, while no batch comes.
"""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import SparkSession

from highwater.spark.tables import Table
from highwater.spark.topic_sink import TopicSink, send_pairs
from highwater.spark.watch.alarms import (
    AlarmChange,
    AlarmState,
    Stepped,
    advance,
    idle,
)
from highwater.spark.watch.minute import Minute
from highwater.spark.watch.rules import Rule
from highwater.spark.watch.state_text import from_note, to_note, to_value

SCHEMA: Final = (
    "rule string, state string, at timestamp, since timestamp, value double, limit double"
)
BEFORE_ALL: Final = -1
"""The batch before the first one."""


NOTE_AFTER_S: Final = 60.0
"""When the stream has been idle for so long, the newest request is worth a commit of its own: no absence can
have begun before, and one that begins after a restart counts from the same request."""


class AlarmLog:
    """The alarms of one checkpoint. Batches and the clock call it from two threads, in turns."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        writer: str,
        rules: tuple[Rule, ...],
        sink: TopicSink | None,
    ) -> None:
        self._spark = spark
        self._table = table
        self._writer = writer
        self._rules = rules
        self._sink = sink
        # PySpark calls batches on a thread of its own, while the main thread looks at the clock.
        self._turn = threading.Lock()
        committed = table.committed(writer)
        self._version = BEFORE_ALL if committed is None else committed.version
        self._state, self._batch = (
            (AlarmState(), BEFORE_ALL) if committed is None else from_note(committed.note)
        )
        self._noted_s = self._state.newest_s

    def add(self, minutes: list[Minute], batch: int) -> list[AlarmChange]:
        """Looks at a batch's minutes; returns the changes, none if the batch was looked at before."""
        with self._turn:
            if batch <= self._batch:
                return []
            return self._keep(advance(self._rules, self._state, minutes), batch)

    def saw(self, newest_s: int) -> None:
        """Takes note of the newest request of a batch, whose minute may not be closed for long."""
        with self._turn:
            if self._state.newest_s is None or newest_s > self._state.newest_s:
                self._state = replace(self._state, newest_s=newest_s)

    def tick(self, idle_s: float) -> list[AlarmChange]:
        """Looks at absences when no record has come for `idle_s`; the log's time goes on as ours."""
        with self._turn:
            stepped = idle(self._rules, self._state, idle_s)
            is_news = self._state.newest_s != self._noted_s and idle_s >= NOTE_AFTER_S
            # Most ticks change nothing, and are not worth a commit.
            return self._keep(stepped, self._batch) if stepped[1] or is_news else []

    def _keep(self, stepped: Stepped, batch: int) -> list[AlarmChange]:
        state, changes = stepped
        if self._sink is not None:
            # Before the commit: killed in between, the batch sends them again, and loses none.
            pairs = [(change.rule, to_value(change)) for change in changes]
            send_pairs(self._spark, pairs, self._sink)
        rows = self._spark.createDataFrame([_row(change) for change in changes], SCHEMA)
        version, note = self._version + 1, to_note(state, batch)
        self._table.commit(rows, writer=self._writer, version=version, note=note)
        self._version, self._state, self._batch = version, state, batch
        self._noted_s = state.newest_s
        return changes


def _row(change: AlarmChange) -> tuple[str, str, datetime, datetime, float | None, float | None]:
    return (
        change.rule,
        "begin" if change.begins else "end",
        datetime.fromtimestamp(change.at_s, UTC),
        datetime.fromtimestamp(change.since_s, UTC),
        # Spark takes no int for a double.
        None if change.value is None else float(change.value),
        None if change.limit is None else float(change.limit),
    )
