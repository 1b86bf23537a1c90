"""What the table of a ranking has: the ranks of its newest windows."""

from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from highwater.spark.page.time_steps import SECONDS_MAX
from highwater.spark.ranking.board import Place
from highwater.spark.tables import Table

RANKS_MAX: Final = 10
"""How far down the windows are looked at."""

PLACES_MAX: Final = 300 * RANKS_MAX
"""Two days of windows that begin every ten minutes, if each is full."""


def places(table: Table) -> list[Place]:
    """Returns the first ranks of the newest windows in the order of time and rank; none without a table."""
    if not table.exists():
        return []
    first = table.read().where(f.col("rank") <= RANKS_MAX)
    in_reach = first.where(
        (f.unix_seconds("window_start") >= 0) & (f.unix_seconds("window_end") <= SECONDS_MAX)
    )
    return in_order(collect(in_reach.orderBy(f.desc("window_start"), "rank").limit(PLACES_MAX)))


def in_order(places: Iterable[Place]) -> list[Place]:
    """Returns the places in the order of time and rank."""
    return sorted(places, key=lambda each: (each.window_start_s, each.rank))


def collect(ranks: DataFrame) -> list[Place]:
    """Returns the rows of `windows.first`."""
    rows: list[Any] = ranks.select(
        # Seconds: PySpark converts timestamps to the machine's local time.
        f.unix_seconds("window_start").alias("window_start_s"),
        f.unix_seconds("window_end").alias("window_end_s"),
        "rank", "item", "views", "clicks", "click_through",
    ).collect()  # fmt: skip
    return [Place(**row.asDict()) for row in rows]
