"""Clients above a rate, from a topic with a web server's requests, as a block list.

    highwater-spark crawlers --topic access_log --checkpoint state/crawlers --table tables/crawlers \
        --block-list blocked --requests 60 --within 60 --gap 600

The table has every detection and every end once. The topic has one key for each client, whose latest
value is its entry, or nothing. Exit codes are those of `stream_command`.
"""

from typing import Annotated, Final

import typer
from pyspark.sql import DataFrame

from highwater.spark.crawlers import log
from highwater.spark.crawlers.detection import detect, entries, history
from highwater.spark.crawlers.sessions import Limits
from highwater.spark.crawlers.view import to_view
from highwater.spark.durations import parse_duration
from highwater.spark.jobs import stream_command as shared
from highwater.spark.jobs.stream_command import StreamJob, StreamOptions
from highwater.spark.options import Html, Png
from highwater.spark.page.files import PageFiles
from highwater.spark.tables import TableFormat
from highwater.spark.topic_admin import COMPACTED
from highwater.spark.topic_sink import send

REQUESTS_MAX: Final = 10_000
"""As many times of requests are in the state of each client at most."""

SECONDS_MAX: Final = 7 * 24 * 3600


def detect_crawlers(
    job: StreamJob, limits: Limits, *, late_s: int, table_path: str, block_list: str | None
) -> None:
    """Runs until the stream ends."""
    table = job.table(table_path)
    sink = None if block_list is None else job.sink(block_list, configs=COMPACTED)

    def batch(rows: DataFrame, number: int) -> None:
        if sink is not None:
            # Before the commit: killed in between, the batch sends them again.
            send(entries(rows), sink)
        table.commit(history(rows), writer=job.writer, version=number, note="")

    job.run(
        detect(job.events(), limits, late_s=late_s),
        batch,
        view=lambda so_far: to_view(job.options.topic, log.changes(table), limits, so_far),
        output_mode="update",
    )


def command(
    *,
    bootstrap: shared.Bootstrap = "127.0.0.1:9092",
    topic: shared.Topic = "access_log",
    checkpoint: shared.Checkpoint = "",
    table: Annotated[str, typer.Option(help="Table of detections and ends.")] = "crawlers",
    block_list: Annotated[
        str | None, typer.Option(help="Compacted topic; it is made if it is missing.")
    ] = None,
    requests: Annotated[
        int, typer.Option(help="So many requests are too many.", min=2, max=REQUESTS_MAX)
    ] = 60,
    within: Annotated[
        int, typer.Option(help="Seconds within which they come.", min=1, max=SECONDS_MAX)
    ] = 60,
    gap: Annotated[
        int, typer.Option(help="Seconds without a request end a session.", min=1, max=SECONDS_MAX)
    ] = 600,
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
    """Finds clients above a rate and keeps a list of them in a topic."""
    options = StreamOptions(
        bootstrap=bootstrap, topic=topic, checkpoint=checkpoint, table_format=table_format,
        starting=starting, offsets_per_batch=max_offsets_per_batch, every_s=every, once=once,
        json_fields=json_fields, ahead=ahead, as_json=as_json, quarantine=quarantine,
        files=PageFiles(html=html, png=png), kafka=tuple(kafka or ()), jars=jars,
    )  # fmt: skip
    limits = Limits(requests=requests, within_ms=within * 1000, gap_ms=gap * 1000)
    with shared.exit_codes(topic, bootstrap):
        late_s = parse_duration(late, "--late")
        with shared.started("crawlers", options) as job:
            detect_crawlers(job, limits, late_s=late_s, table_path=table, block_list=block_list)


if __name__ == "__main__":
    typer.run(command)
