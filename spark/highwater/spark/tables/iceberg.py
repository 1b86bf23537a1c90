"""Iceberg tables in a Hadoop catalog whose warehouse is the directory above the table.

A commit is two steps. Spark writes the rows as a staged snapshot, which no reader sees (Iceberg's
write-audit-publish). One change of the table's metadata then makes that snapshot the current one and
sets the writer's mark as a property: it is refused if anything was committed in between. What was committed
while the rows were written is below the staged snapshot already; if rows are replaced, that is refused, too.
Properties outlive the snapshots that `expire_snapshots` removes.
"""

import zlib
from collections.abc import Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.spark.empty_rows import empty_rows
from highwater.spark.java_gateway import hadoop_configuration, java
from highwater.spark.tables import commit_mark
from highwater.spark.tables.commit_mark import MARK, CommitMark
from highwater.spark.tables.formats import TableFormat, refuse_others
from highwater.spark.tables.hadoop_files import HadoopFiles
from highwater.spark.tables.local_lock import hold, local_path
from highwater.spark.tables.port import Committed, Snapshot, TableConflict, TableMisfit

STAGED_ID: Final = "spark.wap.id"
_PROPERTIES: Final = {
    "write.wap.enabled": "true",
    # Tasks write what they read, as with the other formats; no shuffle by partition comes before.
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}


def catalog_of(path: str) -> tuple[str, dict[str, str], str]:
    """Returns the catalog's name, its settings, and the table's name in SQL.

    Raises TableMisfit for a path that has nothing above it.
    """
    local = local_path(path)
    whole = str(local) if local is not None else path.rstrip("/")
    warehouse, _, table = whole.rpartition("/")
    if not warehouse or not table or warehouse.endswith("/"):
        raise TableMisfit(f"an Iceberg table needs a directory above it: {path}")
    # One catalog for each directory; its name has to be an identifier.
    name = f"iceberg_{zlib.crc32(warehouse.encode()):08x}"
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": warehouse,
        # Commits below go past the catalog, whose cache would show the table before them.
        f"{prefix}.cache-enabled": "false",
    }
    return name, settings, f"{name}.`{table.replace('`', '``')}`"


class IcebergTable:
    """An Iceberg table at a path; see `port.Table`."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str]) -> None:
        self._spark = spark
        local = local_path(path)
        self._path = str(local) if local is not None else path.rstrip("/")
        self._partition_by = tuple(partition_by)
        self._files = HadoopFiles(spark, self._path)
        _, self._settings, self._name = catalog_of(path)
        self._configure(spark)
        self._jvm = java(spark)
        self._tables = self._jvm.org.apache.iceberg.hadoop.HadoopTables(hadoop_configuration(spark))

    def exists(self) -> bool:
        """As the port says."""
        return bool(self._tables.exists(self._path))

    def read(self) -> DataFrame:
        """As the port says."""
        if not self.exists():
            raise TableMisfit(f"{self._path} is no Iceberg table")
        return self._spark.table(self._name)

    def commit(
        self, rows: DataFrame, *, writer: str, version: int, note: str, replace: str | None = None
    ) -> bool:
        """As the port says."""
        mark = commit_mark.new_mark(writer, version, note)
        with hold(self._path, "commit"):
            last = self.committed(writer)
            if last is not None and last.version >= version:
                return False
            refuse_others(self._files, self._path, TableFormat.ICEBERG)
            self._make(rows)
            # What is replaced is looked up now: rows that come later would be removed unseen.
            base = None if replace is None else self._current_id()
            try:
                self._stage(rows, mark, replace)
            except AnalysisException as error:
                text = str(error).partition("\n")[0]
                raise TableMisfit(f"the rows do not fit {self._path}: {text}") from error
            if replace is not None and self._parent_id(mark) != base:
                raise self._conflict()
            return self._publish(mark)

    def committed(self, writer: str) -> Committed | None:
        """As the port says."""
        if not self.exists():
            return None
        mark = self._mark_in(self._operations().current(), writer)
        return None if mark is None else mark.committed

    def snapshot(self, writer: str) -> Snapshot | None:
        """As the port says."""
        if not self.exists():
            return None
        metadata = self._operations().current()
        mark = self._mark_in(metadata, writer)
        if mark is None:
            return None
        # The mark's own commit has made a snapshot the current one.
        at = metadata.currentSnapshot().snapshotId()
        rows = self._spark.sql(f"SELECT * FROM {self._name} VERSION AS OF {at}")  # noqa: S608 # Quoted.
        return Snapshot(committed=mark.committed, rows=rows)

    def _configure(self, session: SparkSession) -> None:
        for key, value in self._settings.items():
            session.conf.set(key, value)

    def _make(self, rows: DataFrame) -> None:
        if self.exists():
            return
        # Rows of a stream's batch belong to a session of their own.
        self._configure(rows.sparkSession)
        empty = empty_rows(rows.sparkSession, rows.schema)
        making = empty.writeTo(self._name).using("iceberg")
        for key, value in _PROPERTIES.items():
            making = making.tableProperty(key, value)
        if self._partition_by:
            making = making.partitionedBy(*map(f.col, self._partition_by))
        making.create()

    def _stage(self, rows: DataFrame, mark: CommitMark, replace: str | None) -> None:
        session = rows.sparkSession
        self._configure(session)
        touched = [] if replace is None else self._touched(replace)
        session.conf.set(STAGED_ID, mark.attempt)
        try:
            if not touched or replace is None:
                rows.writeTo(self._name).append()
                return
            # Iceberg overwrites whole files: the others' rows in these partitions are written again.
            condition = f.lit(False)
            for each in touched:
                condition = condition | each
            matches = f.coalesce(f.expr(replace), f.lit(False))
            kept = self.read().where(condition & ~matches)
            rows.unionByName(kept).writeTo(self._name).overwrite(condition)
        finally:
            session.conf.unset(STAGED_ID)

    def _touched(self, replace: str) -> list[Any]:
        """Returns conditions on the partitions that have rows to replace, none if nothing has."""
        matching = self.read().where(f.expr(replace))
        if not self._partition_by:
            return [f.lit(True)] if matching.limit(1).count() else []
        found = []
        for row in matching.select(*self._partition_by).distinct().collect():
            here = f.lit(True)
            for name in self._partition_by:
                value = row[name]
                column = f.col(name)
                here = here & (column.isNull() if value is None else column == f.lit(value))
            found.append(here)
        return found

    def _publish(self, mark: CommitMark) -> bool:
        operations = self._operations()
        base = operations.current()
        winner = self._mark_in(base, mark.writer)
        if winner is not None and winner.version >= mark.version:
            return False
        staged = _staged(base, mark)
        if staged.parentId() != _current_id(base):
            raise self._conflict()
        properties = self._jvm.java.util.HashMap()
        properties.put(f"{MARK}.{mark.writer}", commit_mark.to_json(mark))
        changed = (
            self._jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
            .setBranchSnapshot(staged.snapshotId(), "main")
            .setProperties(properties)
            .build()
        )
        try:
            operations.commit(base, changed)
        except Py4JJavaError as error:
            if "CommitFailedException" in str(error):
                raise self._conflict() from error
            raise
        return True

    def _parent_id(self, mark: CommitMark) -> int | None:
        """Of the attempt's staged snapshot. Iceberg names it when the rows are written, not when they are asked for."""
        found: int | None = _staged(self._operations().current(), mark).parentId()
        return found

    def _current_id(self) -> int | None:
        return _current_id(self._operations().current())

    def _conflict(self) -> TableConflict:
        return TableConflict(
            f"another process committed to {self._path} at the same time; run again"
        )

    def _operations(self) -> Any:
        return self._tables.load(self._path).operations()

    def _mark_in(self, metadata: Any, writer: str) -> CommitMark | None:
        return commit_mark.from_json(metadata.properties().get(f"{MARK}.{writer}"))


def _staged(metadata: Any, mark: CommitMark) -> Any:
    return next(
        each for each in metadata.snapshots() if each.summary().get("wap.id") == mark.attempt
    )


def _current_id(metadata: Any) -> int | None:
    current = metadata.currentSnapshot()
    return None if current is None else int(current.snapshotId())
