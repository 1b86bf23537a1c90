"""What the table of detections has: the newest of them, and of the ends of sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import functions as f

from highwater.spark.page.time_steps import SECONDS_MAX
from highwater.spark.tables import Table

CHANGES_MAX: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChange:
    """A client that was detected, or whose session is over, at `at_s`; times are seconds since 1970.

    `requests` are those of the session until then.
    """

    client: str
    detected: bool
    at_s: int
    session_start_s: int
    requests: int


def changes(table: Table) -> list[ClientChange]:
    """Returns the newest changes in the order of time, none if there is no table yet."""
    if not table.exists():
        return []
    rows: list[Any] = (
        table.read()
        # Collect seconds: PySpark converts timestamps to the machine's local time.
        .withColumn("at_s", f.unix_seconds("at"))
        .withColumn("session_start_s", f.unix_seconds("session_start"))
        .where((f.col("session_start_s") >= 0) & (f.col("at_s") <= SECONDS_MAX))
        .orderBy(f.desc("at_s"), "client", f.desc("state"))
        .limit(CHANGES_MAX)
        .collect()
    )
    return oldest_first(rows)


def oldest_first(rows: Sequence[Mapping[str, Any]]) -> list[ClientChange]:
    """Returns the changes in the opposite order of their rows."""
    return [
        ClientChange(
            client=row["client"],
            detected=row["state"] == "begin",
            at_s=row["at_s"],
            session_start_s=row["session_start_s"],
            requests=row["requests"],
        )
        for row in reversed(rows)
    ]
