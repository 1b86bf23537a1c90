"""Items by views and click-through over sliding windows, from a topic with a web server's requests.

    highwater-spark ranking --topic access_log --checkpoint state/ranking --table tables/ranking \
        --board-topic ranking --window '1 hour' --slide '10 minutes' --site www.example.com

The table has every rank of every window once. The topic has one key for each rank, whose latest value
is that of the newest window. Exit codes are those of `stream_command`.
"""

from typing import Annotated, Final

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import UsageError
from highwater.spark.durations import for_spark, parse_duration
from highwater.spark.ending import one_line
from highwater.spark.java_gateway import java
from highwater.spark.jobs import stream_command as shared
from highwater.spark.jobs.stream_command import StreamJob, StreamOptions
from highwater.spark.options import Html, Png
from highwater.spark.page.files import PageFiles
from highwater.spark.ranking import board, history, windows
from highwater.spark.ranking.view import to_view
from highwater.spark.ranking.windows import RankingOptions
from highwater.spark.tables import TableFormat
from highwater.spark.topic_admin import COMPACTED
from highwater.spark.topic_sink import send_pairs

TOP_DEFAULT: Final = 10
TOP_MAX: Final = 10_000


def rank(
    job: StreamJob, options: RankingOptions, *, table_path: str, board_topic: str | None
) -> None:
    """Runs until the stream ends."""
    check_items(job.spark, options.items)
    table = job.table(table_path)
    sink = None if board_topic is None else job.sink(board_topic, configs=COMPACTED)

    def batch(rows: DataFrame, number: int) -> None:
        first = windows.first(rows, options.top)
        if sink is not None:
            # Before the commit: killed in between, the batch sends them again.
            send_pairs(job.spark, board.records(newest(first), options.top), sink)
        table.commit(first, writer=job.writer, version=number, note="")

    job.run(
        windows.counts(job.events(), options),
        batch,
        view=lambda so_far: to_view(job.options.topic, history.places(table), so_far),
    )


def check_items(spark: SparkSession, items: str) -> None:
    """Raises UsageError if the text is no expression of Java's."""
    try:
        java(spark).java.util.regex.Pattern.compile(items)
    except (IllegalArgumentException, Py4JJavaError) as error:
        # PySpark has a class of its own for the ancestor of Java's error.
        raise UsageError(f"--items is no expression: {one_line(error)}") from error


def unchanging(options: RankingOptions) -> dict[str, str]:
    """Returns the options that must be the same as long as the checkpoint is.

    Spark would go on with windows of another length or start beside those under way, and each would lack the
    requests that the other has. With fewer ranks the board would keep the last ones for ever.
    """
    return {
        "--window": for_spark(options.window_s),
        "--slide": for_spark(options.slide_s),
        "--top": str(options.top),
    }


def newest(first: DataFrame) -> list[board.Place]:
    """Returns the ranks of the newest window, of a batch that may close many."""
    start = first.agg(f.max("window_start").alias("newest"))
    return history.collect(first.join(f.broadcast(start), f.col("window_start") == f.col("newest")))


def command(
    *,
    bootstrap: shared.Bootstrap = "127.0.0.1:9092",
    topic: shared.Topic = "access_log",
    checkpoint: shared.Checkpoint = "",
    table: Annotated[str, typer.Option(help="Table of ranks.")] = "ranking",
    board_topic: Annotated[
        str | None, typer.Option(help="Compacted topic; it is made if it is missing.")
    ] = None,
    window: Annotated[str, typer.Option(help="Length of a window.")] = "1 hour",
    slide: Annotated[str, typer.Option(help="Between the starts of windows.")] = "10 minutes",
    top: Annotated[int, typer.Option(help="Ranks.", min=1, max=TOP_MAX)] = TOP_DEFAULT,
    items: Annotated[str, typer.Option(help="Expression that finds paths to rank.")] = "^/",
    site: Annotated[
        list[str] | None, typer.Option(help="Host whose referrers are clicks; may be repeated.")
    ] = None,
    table_format: shared.Format = TableFormat.DELTA,
    starting: shared.From = "earliest",
    late: shared.Late = "10 minutes",
    ahead: shared.Ahead = shared.AHEAD,
    max_offsets_per_batch: shared.OffsetsPerBatch = shared.OFFSETS_PER_BATCH,
    every: shared.Every = 10,
    once: shared.Once = False,
    json_fields: shared.JsonNames = None,
    quarantine: shared.Quarantine = None,
    as_json: shared.AsJson = False,
    html: Html = None,
    png: Png = None,
    kafka: shared.Kafka = None,
    jars: shared.Jars = None,
) -> None:
    """Ranks items by views and click-through over sliding windows."""
    options = StreamOptions(
        bootstrap=bootstrap, topic=topic, checkpoint=checkpoint, table_format=table_format,
        starting=starting, offsets_per_batch=max_offsets_per_batch, every_s=every, once=once,
        json_fields=json_fields, ahead=ahead, as_json=as_json, quarantine=quarantine,
        files=PageFiles(html=html, png=png), kafka=tuple(kafka or ()), jars=jars,
    )  # fmt: skip
    with shared.exit_codes(topic, bootstrap):
        ranked = RankingOptions(
            window_s=parse_duration(window, "--window"), slide_s=parse_duration(slide, "--slide"),
            late_s=parse_duration(late, "--late"), top=top, items=items, sites=tuple(site or ()),
        )  # fmt: skip
        with shared.started("ranking", options, unchanging(ranked)) as job:
            rank(job, ranked, table_path=table, board_topic=board_topic)


if __name__ == "__main__":
    typer.run(command)
