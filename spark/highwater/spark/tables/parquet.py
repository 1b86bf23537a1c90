"""Plain Parquet: one directory a commit, which appears by one rename.

    PATH/_staging/...                       commits under way, which no reader looks into
    PATH/commit=WRITER.VERSION/topic=.../   a commit, with `_commit.json`: the mark, the columns

Every reader of Parquet directories sees whole commits only, and a column `commit` beside the table's.
There is no log over all commits, so that rows cannot be replaced.
"""

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from highwater.spark.tables import commit_mark
from highwater.spark.tables.formats import COLUMN, TableFormat, parquet_commits, refuse_others
from highwater.spark.tables.hadoop_files import HadoopFiles
from highwater.spark.tables.local_lock import hold, local_path
from highwater.spark.tables.port import Committed, ReplaceRefused, Snapshot, TableMisfit

STAGING: Final = "_staging"
NOTE_FILE: Final = "_commit.json"
_DIGITS: Final = 20
"""Of a version in names, so that they sort; enough for 64 bits."""


def directory_of(writer: str, version: int) -> str:
    """Returns the name of a commit's directory."""
    return f"{_prefix(writer)}{version:0{_DIGITS}}"


def last_of(names: Sequence[str], writer: str) -> str | None:
    """Returns the directory of the writer's last commit among names in the table's directory."""
    prefix = _prefix(writer)
    return max(
        (n for n in names if n.startswith(prefix) and len(n) == len(prefix) + _DIGITS), default=None
    )


def _prefix(writer: str) -> str:
    # The quoted name ends where the last dot is.
    return f"{COLUMN}={quote(writer, safe='').replace('.', '%2E')}."


class ParquetTable:
    """A directory of commits; see `port.Table`."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str]) -> None:
        self._spark = spark
        self._path = path
        self._partition_by = tuple(partition_by)
        self._files = HadoopFiles(spark, path)

    def exists(self) -> bool:
        """As the port says."""
        return bool(self._commits())

    def read(self) -> DataFrame:
        """As the port says."""
        commits = self._commits()
        if not commits:
            raise TableMisfit(f"{self._path} has no commits in Parquet")
        return self._rows(commits[0], [self._path])

    def snapshot(self, writer: str) -> Snapshot | None:
        """As the port says: commits never change, so that one list of them is a version."""
        commits = self._commits()
        last = last_of(commits, writer)
        if last is None:
            return None
        root = self._path.rstrip("/")
        rows = self._rows(commits[0], [f"{root}/{name}" for name in commits])
        return Snapshot(committed=self._committed_in(last), rows=rows)

    def _rows(self, first: str, paths: list[str]) -> DataFrame:
        # Partition columns keep their types: Spark would read a topic called 7 as a number.
        columns = json.loads(str(self._document(first)["columns"]))
        schema = StructType.fromJson(columns).add(COLUMN, "string")
        reader = self._spark.read.schema(schema).option("basePath", self._path)
        return reader.parquet(*paths).drop(COLUMN)

    def commit(
        self, rows: DataFrame, *, writer: str, version: int, note: str, replace: str | None = None
    ) -> bool:
        """As the port says."""
        if replace is not None:
            raise ReplaceRefused(
                f"{self._path} is plain Parquet, whose rows cannot be replaced: use Delta or Iceberg"
            )
        mark = commit_mark.new_mark(writer, version, note)
        target = directory_of(writer, version)
        staged = f"{STAGING}/{target}.{mark.attempt}"
        columns = _plain(rows.schema)
        with hold(self._path, "commit"):
            last = last_of(self._commits(), writer)
            if last is not None and last >= target:
                return False
            refuse_others(self._files, self._path, TableFormat.PARQUET)
            if self._columns() not in {None, columns}:
                raise TableMisfit(f"the rows do not have the columns of {self._path}")
            self._remove_leftovers(writer, last)
            action = rows.write.mode("errorifexists")
            if self._partition_by:
                action = action.partitionBy(*self._partition_by)
            try:
                action.parquet(f"{self._path.rstrip('/')}/{staged}")
                document = {"mark": commit_mark.to_json(mark), "columns": columns}
                self._files.write_text(f"{staged}/{NOTE_FILE}", json.dumps(document))
                return self._files.move_new(staged, target)
            except (PySparkException, Py4JJavaError):
                # Another attempt has committed, and has removed what this one wrote: it could not win.
                if target in self._commits():
                    return False
                raise
            finally:
                self._files.remove(staged)

    def committed(self, writer: str) -> Committed | None:
        """As the port says."""
        last = last_of(self._commits(), writer)
        return None if last is None else self._committed_in(last)

    def _committed_in(self, directory: str) -> Committed:
        mark = commit_mark.from_json(self._document(directory)["mark"])
        if mark is None:
            raise TableMisfit(f"{self._path}/{directory}/{NOTE_FILE} has no mark of a commit")
        return mark.committed

    def _commits(self) -> list[str]:
        return parquet_commits(self._files)

    def _columns(self) -> str | None:
        commits = self._commits()
        return str(self._document(commits[0])["columns"]) if commits else None

    def _document(self, directory: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._files.read_text(f"{directory}/{NOTE_FILE}"))
        return document

    def _remove_leftovers(self, writer: str, last: str | None) -> None:
        """Removes what attempts of this writer left that cannot commit any more.

        Where the lock of `commit` holds, no other attempt lives. Elsewhere one that lives may still commit
        its version, unless that is taken: to remove its files would leave rows out in silence.
        """
        is_locked = local_path(self._path) is not None
        for name in self._files.names(STAGING):
            is_over = last is not None and name[: len(last)] <= last
            if name.startswith(_prefix(writer)) and (is_locked or is_over):
                self._files.remove(f"{STAGING}/{name}")


def _plain(schema: StructType) -> str:
    """The columns as JSON; all may be null, since Parquet gives them back so."""
    fields = [{**field.jsonValue(), "nullable": True} for field in schema.fields]
    return json.dumps({"type": "struct", "fields": fields})
