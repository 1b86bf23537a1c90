"""Delta tables: the writer's version is an action of its own in the log, the note its user metadata.

Delta itself skips a commit whose `txnVersion` is not above the last one of its `txnAppId`, and makes
one of two concurrent ones fail (Delta's documentation, "Idempotent table writes in foreachBatch").
Whether ours was skipped shows in the log: the mark that is found there has another attempt.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from highwater.spark.java_gateway import java, java_session
from highwater.spark.tables import commit_mark
from highwater.spark.tables.commit_mark import CommitMark
from highwater.spark.tables.formats import LOG, TableFormat, delta_commits, refuse_others
from highwater.spark.tables.hadoop_files import HadoopFiles
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import (
    CommitNoteGone,
    Committed,
    Snapshot,
    TableConflict,
    TableMisfit,
)

_CONFLICT: Final = re.compile(r"Concurrent\w+Exception|(?:Metadata|Protocol)ChangedException")


class DeltaTable:
    """A Delta table at a path; see `port.Table`."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str]) -> None:
        self._spark = spark
        self._path = path
        self._partition_by = tuple(partition_by)
        self._files = HadoopFiles(spark, path)

    def exists(self) -> bool:
        """As the port says."""
        return bool(self._log())

    def read(self) -> DataFrame:
        """As the port says."""
        if not self.exists():
            raise TableMisfit(f"{self._path} is no Delta table")
        return self._spark.read.format("delta").load(self._path)

    def commit(
        self, rows: DataFrame, *, writer: str, version: int, note: str, replace: str | None = None
    ) -> bool:
        """As the port says."""
        mark = commit_mark.new_mark(writer, version, note)
        with hold(self._path, "commit"):
            last = self.committed(writer)
            if last is not None and last.version >= version:
                return False
            refuse_others(self._files, self._path, TableFormat.DELTA)
            self._write(rows, mark, replace)
            found = self._last_mark(writer)
            return found is not None and found.attempt == mark.attempt

    def committed(self, writer: str) -> Committed | None:
        """As the port says."""
        mark = self._last_mark(writer)
        return None if mark is None else mark.committed

    def snapshot(self, writer: str) -> Snapshot | None:
        """As the port says."""
        names = self._log()
        mark = self._mark_of(names, writer)
        if mark is None:
            return None
        rows = self._spark.read.format("delta").option("versionAsOf", _version(names[-1]))
        return Snapshot(committed=mark.committed, rows=rows.load(self._path))

    def _write(self, rows: DataFrame, mark: CommitMark, replace: str | None) -> None:
        action = rows.write.format("delta").options(
            txnAppId=mark.writer,
            txnVersion=str(mark.version),
            userMetadata=commit_mark.to_json(mark),
        )
        if self._partition_by:
            action = action.partitionBy(*self._partition_by)
        if replace is None or not self.exists():
            action = action.mode("append")
        else:
            action = action.mode("overwrite").option("replaceWhere", replace)
        try:
            action.save(self._path)
        except AnalysisException as error:
            raise TableMisfit(f"the rows do not fit {self._path}: {_first_line(error)}") from error
        except (PySparkException, Py4JJavaError) as error:
            if _CONFLICT.search(str(error)):
                raise TableConflict(
                    f"another process committed to {self._path} at the same time; run again"
                ) from error
            raise

    def _log(self) -> list[str]:
        """Names of the commits that the log has, in their order."""
        return delta_commits(self._files)

    def _last_mark(self, writer: str) -> CommitMark | None:
        return self._mark_of(self._log(), writer)

    def _mark_of(self, names: Sequence[str], writer: str) -> CommitMark | None:
        mark = find_mark(map(self._read, reversed(names)), writer)
        # The log begins later than the table: its older commits are in a checkpoint, without notes.
        if mark is None and names and _version(names[0]) > 0:
            version = self._transactions().get(writer)
            if version.isDefined():
                raise CommitNoteGone(
                    f"{self._path} has version {version.get()} of {writer}, but its log no longer has the note"
                )
        return mark

    def _read(self, name: str) -> str:
        return self._files.read_text(f"{LOG}/{name}")

    def _transactions(self) -> Any:
        """Delta's own map of writers to versions, which checkpoints keep."""
        log = java(self._spark).org.apache.spark.sql.delta.DeltaLog
        log.clearCache()
        session = java_session(self._spark)
        return log.forTable(session, self._path).unsafeVolatileSnapshot().transactions()


def find_mark(commits: Iterable[str], writer: str) -> CommitMark | None:
    """Returns the first mark of the writer in texts of commits, which stand newest first."""
    for text in commits:
        for info in _commit_infos(text):
            mark = commit_mark.from_json(info.get("userMetadata"))
            if mark is not None and mark.writer == writer:
                return mark
    return None


def _version(name: str) -> int:
    """Returns Delta's own version of the table, from the name of a commit."""
    return int(name.partition(".")[0])


def _commit_infos(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        # Most lines are files, and their statistics need not be parsed.
        if '"commitInfo"' in line:
            action = json.loads(line)
            if "commitInfo" in action:
                yield action["commitInfo"]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
