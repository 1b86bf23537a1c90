"""Formats of tables, and the files by which a directory shows of which format its table is.

A table of another format on the same path looks to a writer like none: it would begin anew beside it, with
everything that the other one has, and readers of either would find rows that nobody meant them to.
"""

import re
from enum import StrEnum
from typing import Final, Protocol

from highwater.spark.tables.port import TableMisfit

LOG: Final = "_delta_log"
COLUMN: Final = "commit"
"""Of plain Parquet: what the names of commits' directories begin with."""

_METADATA: Final = "metadata"
_VERSION_HINT: Final = "version-hint.text"
_DELTA_COMMIT: Final = re.compile(r"[0-9]{20}\.json")
_ICEBERG_VERSION: Final = re.compile(r".+\.metadata\.json(\.gz)?")


class TableFormat(StrEnum):
    """Formats of tables, by their names on the command line."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


class Names(Protocol):
    """The part of `hadoop_files.HadoopFiles` that is used here."""

    def names(self, directory: str = "") -> list[str]:
        """Names in a directory; none if it is not there."""


def delta_commits(files: Names) -> list[str]:
    """Returns the names of the commits that Delta's log has, in their order."""
    return [name for name in files.names(LOG) if _DELTA_COMMIT.fullmatch(name)]


def parquet_commits(files: Names) -> list[str]:
    """Returns the directories of plain Parquet's commits, in their order."""
    return [name for name in files.names() if name.startswith(f"{COLUMN}=")]


def found_in(files: Names) -> frozenset[TableFormat]:
    """Returns the formats of which there is a table; what a killed first commit left is none."""
    versions = files.names(_METADATA)
    is_there = {
        TableFormat.DELTA: bool(delta_commits(files)),
        TableFormat.ICEBERG: _VERSION_HINT in versions
        or any(_ICEBERG_VERSION.fullmatch(name) for name in versions),
        TableFormat.PARQUET: bool(parquet_commits(files)),
    }
    return frozenset(each for each, found in is_there.items() if found)


def refuse_others(files: Names, path: str, ours: TableFormat) -> None:
    """Raises TableMisfit if there is a table at `path`, but none of our format.

    Where ours is there, too, it is the table: Delta, for one, can keep Iceberg's metadata beside its own.
    """
    found = found_in(files)
    if found and ours not in found:
        raise TableMisfit(
            f"{path} is a table of the format {' and '.join(sorted(found))}, not of {ours}: "
            "name its format, or another path"
        )
