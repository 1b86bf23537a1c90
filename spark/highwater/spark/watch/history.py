"""What the tables of a watch have: the newest minutes, and the newest changes of alarms."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import functions as f

from highwater.spark.page.time_steps import SECONDS_MAX
from highwater.spark.tables import Table
from highwater.spark.watch import traffic
from highwater.spark.watch.alarms import AlarmChange
from highwater.spark.watch.minute import Minute

MINUTES_MAX: Final = 7 * 24 * 60
"""A week without a gap."""

CHANGES_MAX: Final = 2000


def minutes(table: Table) -> list[Minute]:
    """Returns the newest minutes in the order of time, none if there is no table yet."""
    if not table.exists():
        return []
    in_reach = table.read().where(f.unix_seconds("minute").between(0, SECONDS_MAX))
    return traffic.collect(in_reach.orderBy(f.desc("minute")).limit(MINUTES_MAX))


def changes(table: Table) -> list[AlarmChange]:
    """Returns the newest changes in the order of time, none if there is no table yet."""
    if not table.exists():
        return []
    rows: list[Any] = (
        table.read()
        # Collect seconds: PySpark converts timestamps to the machine's local time.
        .withColumn("at_s", f.unix_seconds("at"))
        .withColumn("since_s", f.unix_seconds("since"))
        .where(f.col("at_s").between(0, SECONDS_MAX) & f.col("since_s").between(0, SECONDS_MAX))
        .orderBy(f.desc("at_s"), "rule", "state")
        .limit(CHANGES_MAX)
        .collect()
    )
    return oldest_first(rows)


def oldest_first(rows: Sequence[Mapping[str, Any]]) -> list[AlarmChange]:
    """Returns the changes in the opposite order of their rows."""
    return [
        AlarmChange(
            rule=row["rule"],
            begins=row["state"] == "begin",
            at_s=row["at_s"],
            since_s=row["since_s"],
            value=row["value"],
            limit=row["limit"],
        )
        for row in reversed(rows)
    ]
