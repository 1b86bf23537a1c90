"""A load in a process of its own that ends by SIGKILL, Java and all, at a chosen moment.

    python -m tests.support.killed_load BOOTSTRAP TOPIC TABLE FORMAT MOMENT

Moments: `begin` (before the table's commit), `files` (data files are there, the commit is not),
`between` (the table is committed, the quarantine is not), or seconds after the commit began.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from highwater.spark.load_run import LoadRun
from highwater.spark.session import open_session
from highwater.spark.tables import Table, open_table
from tests.support.spark_loads import request

POLL_S = 0.002


def die() -> None:
    """Ends the process group, which is this process and its Java."""
    os.killpg(0, signal.SIGKILL)


class DyingTable:
    """A table during whose commit the process dies."""

    def __init__(self, table: Table, path: Path, moment: str) -> None:
        self._table = table
        self._path = path
        self._moment = moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, *args: Any, **kwargs: Any) -> bool:
        if self._moment == "begin":
            die()
        if self._moment == "files":
            threading.Thread(target=self._die_with_files, daemon=True).start()
        elif self._moment != "between":
            threading.Timer(float(self._moment), die).start()
        done = self._table.commit(*args, **kwargs)
        if self._moment == "between":
            die()
        return done

    def _die_with_files(self) -> None:
        while not any(self._path.rglob("*.parquet")):
            time.sleep(POLL_S)
        die()


def main() -> None:
    bootstrap, topic, path, table_format, moment = sys.argv[1:]
    spark = open_session("killed load")
    table = Path(path)

    def opened(session: Any, name: str, where: str, **more: Any) -> Any:
        made = open_table(session, name, where, **more)
        return DyingTable(made, table, moment) if where == path else made

    wanted = request(bootstrap, table, topic, table_format=table_format, value_format="text")
    LoadRun(spark, wanted, print, opened).run()
    spark.stop()


if __name__ == "__main__":
    main()
