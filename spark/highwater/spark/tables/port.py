"""What a job may ask of a table, whatever its format is."""

from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from highwater.model.errors import RetriableError, UsageError


class TableConflict(RetriableError):
    """Another process commits to the table at the same time; nothing of ours was written."""

    reason = "TABLE_CONFLICT"


class TableMisfit(UsageError):
    """The rows do not have the columns of the table, or the table is not of the named format."""

    reason = "TABLE_MISFIT"


class ReplaceRefused(UsageError):
    """The format cannot replace rows and add others in one transaction."""

    reason = "REPLACE_REFUSED"


class CommitNoteGone(UsageError):
    """The table knows the writer's version, but its log no longer has the note beside it."""

    reason = "COMMIT_NOTE_GONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A writer's last commit."""

    version: int
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A writer's last commit, and all rows that the table had at that moment."""

    committed: Committed
    rows: DataFrame


class Table(Protocol):
    """One table at one path.

    Writers are names of jobs' instances; each counts its own versions, from 0 up, not necessarily
    without gaps. A stream's version is its batch id.
    """

    def exists(self) -> bool:
        """Whether anything was committed, or the table was made by somebody else."""

    def read(self) -> DataFrame:
        """Returns all rows of all commits. Raises TableMisfit if there is no such table."""

    def commit(
        self, rows: DataFrame, *, writer: str, version: int, note: str, replace: str | None = None
    ) -> bool:
        """Adds `rows`, and in the same transaction records that `writer` is at `version`.

        With the SQL predicate `replace`, rows that match it are removed in that transaction; new
        rows have to match it, too. `note` is the writer's own text. Makes the table if need be.
        Returns False, and changes nothing, if the writer has committed `version` or a later one.
        Raises TableConflict, TableMisfit, ReplaceRefused; errors of the query that computes
        `rows` pass through.
        """

    def committed(self, writer: str) -> Committed | None:
        """Returns the writer's last commit, None before its first. Raises CommitNoteGone."""

    def snapshot(self, writer: str) -> Snapshot | None:
        """Returns the writer's last commit with the rows of one version of the table, which stay the same.

        None before its first commit. Raises CommitNoteGone.
        """
