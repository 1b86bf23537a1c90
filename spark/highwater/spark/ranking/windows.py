"""Views and clicks of items in sliding windows, and the first of each window.

A view of an item is a request for its path that was answered with a status below 400. A click is such a
request whose referrer is the item's page: somebody saw the item and went on from it within the site.
The click-through of an item is clicks divided by views, null without a view.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from highwater.model.errors import UsageError
from highwater.spark.durations import for_spark

FIRST_FAILURE: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions:
    """What is ranked and when.

    Items are the paths that the expression `items` (Java's) finds. Clicks are counted from referrers on
    the hosts of `sites`; without any there is no click-through.
    """

    window_s: int
    slide_s: int
    late_s: int
    top: int
    items: str
    sites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for windows that leave gaps between them."""
        if self.slide_s > self.window_s:
            raise UsageError(
                f"windows of {self.window_s} s every {self.slide_s} s leave gaps between them"
            )


def counts(events: DataFrame, options: RankingOptions) -> DataFrame:
    """Returns window_start, window_end, item, views and clicks, when a window is closed.

    All rows of a window come in the same batch.
    """
    touched = _touched(events.withWatermark("time", for_spark(options.late_s)), options)
    window = f.window("time", for_spark(options.window_s), for_spark(options.slide_s))
    grouped = touched.groupBy(window.alias("window"), f.col("item"))
    return grouped.agg(f.sum("view").alias("views"), f.sum("click").alias("clicks")).select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        "item",
        "views",
        "clicks",
    )


def _touched(events: DataFrame, options: RankingOptions) -> DataFrame:
    """One row for each item that a request views or was clicked on: time, item, view, click."""
    served = events.where(f.col("status") < FIRST_FAILURE)
    viewed = _touch(f.col("path"), 1, 0)
    touches = [viewed]
    if options.sites:
        here = f.col("referrer_host").isin(*options.sites)
        touches.append(f.when(here, _touch(f.col("referrer_path"), 0, 1)))
    exploded = served.select("time", f.explode(f.array_compact(f.array(*touches))).alias("touch"))
    return exploded.select("time", "touch.*").where(f.col("item").rlike(options.items))


def _touch(item: Column, view: int, click: int) -> Column:
    return f.struct(item.alias("item"), f.lit(view).alias("view"), f.lit(click).alias("click"))


def first(counted: DataFrame, top: int) -> DataFrame:
    """Returns the `top` items of each window with their rank, from 1 up, and click-through.

    By views, then by clicks, then by name, so that equal counts give equal ranks in every run.
    """
    order = Window.partitionBy("window_start").orderBy(f.desc("views"), f.desc("clicks"), "item")
    ranked = counted.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= top)
    rate = f.when(f.col("views") > 0, f.col("clicks") / f.col("views"))
    return ranked.select(
        "window_start", "window_end", "rank", "item", "views", "clicks", rate.alias("click_through")
    )
