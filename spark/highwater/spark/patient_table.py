"""A table that several streams share: a commit that meets another one waits its turn.

Commits take a second or so, and of two at once one is refused with nothing written. A stream would end for
it, and be started again to do the same batch.
"""

import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame

from highwater.spark.tables import Committed, Table
from highwater.spark.tables.port import Snapshot, TableConflict

WAIT_S: Final = 60.0
"""Many commits of others; who holds a table longer than that is not just committing."""

PAUSE_S: Final = 0.2


class PatientTable:
    """A table whose commits are tried again for a while; see `port.Table`."""

    def __init__(
        self,
        table: Table,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table = table
        self._now = now
        self._sleep = sleep

    def exists(self) -> bool:
        """As the port says."""
        return self._table.exists()

    def read(self) -> DataFrame:
        """As the port says."""
        return self._table.read()

    def committed(self, writer: str) -> Committed | None:
        """As the port says."""
        return self._table.committed(writer)

    def snapshot(self, writer: str) -> Snapshot | None:
        """As the port says."""
        return self._table.snapshot(writer)

    def commit(
        self, rows: DataFrame, *, writer: str, version: int, note: str, replace: str | None = None
    ) -> bool:
        """As the port says; raises TableConflict only after WAIT_S of them."""
        end_s = self._now() + WAIT_S
        while True:
            try:
                return self._table.commit(
                    rows, writer=writer, version=version, note=note, replace=replace
                )
            except TableConflict:
                if self._now() >= end_s:
                    raise
            self._sleep(PAUSE_S)
