"""Topics of one or several clusters into another, every record once, with all that a record has.

    highwater-spark mirror --source east=host:9092 --target other:9092 --topic orders
    highwater-spark mirror --source a=h1:9092 --source b=h2:9092 --target h3:9092 --pattern 'site-.*' --prefix
    highwater-spark mirror --source east=host:9092 --target other:9092 --translate GROUP > offsets.csv

docs/spark/mirror.md describes what is kept, what happens when a run is killed, and the exit codes.
"""

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from highwater.model.errors import HighwaterError, UsageError
from highwater.spark.brokers import Brokers, check_pattern
from highwater.spark.ending import EXIT_GONE, exit_code, one_line
from highwater.spark.mirror.clients import TargetClients
from highwater.spark.mirror.group_move import Move, csv_line, move
from highwater.spark.mirror.mirror_run import MirrorRun, Telling
from highwater.spark.mirror.naming import Source, offsets_topic, parse_sources
from highwater.spark.mirror.offset_log import OPEN_WAIT_S, read_part
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.progress import MirrorProgress, describe
from highwater.spark.mirror.request import MirrorRequest
from highwater.spark.mirror.source_run import SourceRun
from highwater.spark.mirror.target import TargetCluster
from highwater.spark.mirror.view import MirrorPage
from highwater.spark.name_values import name_values
from highwater.spark.options import (
    AsJson,
    Html,
    Jars,
    Kafka,
    Png,
    ReadUncommitted,
    kafka_options,
)
from highwater.spark.page.files import PageFiles
from highwater.spark.session import open_session
from highwater.spark.stop_signals import StopSignals
from highwater.spark.stream_source import parse_starting

OFFSETS_MAX: Final = 500_000
"""Of one partition in a round: some 100 MB of log lines, a minute of one task on a small machine."""


class Compression(StrEnum):
    """What the producers of copies compress with."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


Sources = Annotated[
    list[str] | None,
    typer.Option(help="ALIAS=HOST:PORT of a cluster to copy from; may be repeated."),
]
Target = Annotated[str, typer.Option(help="host:port of any broker to copy to.")]
Topics = Annotated[list[str] | None, typer.Option(help="A topic; may be repeated.")]
Pattern = Annotated[str | None, typer.Option(help="Also all topics whose whole name matches.")]
Prefix = Annotated[bool, typer.Option("--prefix", help="Copies are called ALIAS.TOPIC.")]
Compressed = Annotated[Compression, typer.Option(help="Of the batches that are written.")]
From = Annotated[
    str,
    typer.Option("--from", help="earliest, latest or a time (ISO), where there is no copy yet."),
]
Append = Annotated[bool, typer.Option("--append", help="Also behind records that no mirror wrote.")]
OffsetsPerTask = Annotated[int, typer.Option(help="Of each partition in a round.", min=1)]
Every = Annotated[float, typer.Option(help="Seconds between rounds at least.", min=0)]
Once = Annotated[bool, typer.Option("--once", help="Copy what is there, and end.")]
Group = Annotated[
    str | None,
    typer.Option(help="Copy nothing: print the offsets of this consumer group in the copies."),
]
TargetKafka = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE for the target's clients (librdkafka).")
]


def command(
    *,
    source: Sources = None,
    target: Target = "",
    topic: Topics = None,
    pattern: Pattern = None,
    prefix: Prefix = False,
    compression: Compressed = Compression.NONE,
    starting: From = "earliest",
    append: Append = False,
    read_uncommitted: ReadUncommitted = False,
    max_offsets_per_task: OffsetsPerTask = OFFSETS_MAX,
    every: Every = 1,
    once: Once = False,
    translate: Group = None,
    as_json: AsJson = False,
    html: Html = None,
    png: Png = None,
    kafka: Kafka = None,
    target_kafka: TargetKafka = None,
    jars: Jars = None,
) -> None:
    """Copies topics of other clusters into one, every record once, or translates a group's offsets."""
    with _told():
        sources = parse_sources(source or [])
        if not target:
            raise UsageError("--target is needed: host:port of the cluster to copy to")
        clients = TargetClients(
            bootstrap=target,
            compression=compression.value,
            settings=name_values(target_kafka or [], "--target-kafka"),
        )
        reading = kafka_options(kafka or [])
        if translate is not None:
            _translate(sources, clients, reading, translate, as_json=as_json, jars=jars)
            return
        if not topic and pattern is None:
            raise UsageError("name a --topic or a --pattern")
        check_pattern(pattern)
        request = MirrorRequest(
            topics=tuple(topic or ()), pattern=pattern, offsets_max=max_offsets_per_task,
            prefixed=prefix, append=append, once=once, read_committed=not read_uncommitted,
            starting=parse_starting(starting),
        )  # fmt: skip
        files = PageFiles(html=html, png=png)
        files.prepare()
        page = MirrorPage(files, target)
        telling = _telling(page, as_json=as_json)
        try:
            are_gone = _copy(sources, clients, reading, request, telling, every_s=every, jars=jars)
        finally:
            page.draw()
    if are_gone:
        raise typer.Exit(EXIT_GONE)


def _copy(
    sources: tuple[Source, ...],
    clients: TargetClients,
    kafka: dict[str, str],
    request: MirrorRequest,
    telling: Telling,
    *,
    every_s: float,
    jars: Path | None,
) -> bool:
    """Runs to the end; returns whether offsets were gone before they were copied."""
    with _session("mirror", jars) as (spark, stop), contextlib.ExitStack() as stack:
        runs = []
        for each in sources:
            made = SourceRun(
                spark, each, request, clients=clients, kafka=kafka, tell=telling.sentence
            )
            stack.callback(made.close)
            runs.append(made)
        run = MirrorRun(runs, stopping=stop.asked, telling=telling)
        if request.once:
            run.run_once()
        else:
            run.run(every_s)
    return run.are_gone


def _translate(
    sources: tuple[Source, ...],
    clients: TargetClients,
    kafka: dict[str, str],
    group: str,
    *,
    as_json: bool,
    jars: Path | None,
) -> None:
    if len(sources) > 1:
        raise UsageError("--translate wants one --source: the one that the group reads")
    with _session(f"mirror {group}", jars) as (spark, _):
        moved = moved_offsets(spark, sources[0], clients, kafka, group)
    for sentence in moved.told:
        typer.echo(sentence, err=True)
    for each in moved.offsets:
        typer.echo(json.dumps(asdict(each)) if as_json else csv_line(each))


def moved_offsets(
    spark: SparkSession, source: Source, clients: TargetClients, kafka: dict[str, str], group: str
) -> Move:
    """Returns where a group goes on in the copies. Raises UsageError, RetriableError."""
    known = OffsetMap()
    target = TargetCluster(clients)
    topic = offsets_topic(source.alias)
    if topic not in target.names():
        raise UsageError(f"nothing of {source.alias} is copied to {clients.bootstrap}: no {topic}")
    # A transaction that is open tells of what is not in the copy yet.
    known.apply(read_part(clients, topic, 0, wait_s=OPEN_WAIT_S).records)
    with Brokers(spark, source.bootstrap, kafka) as brokers:
        committed = brokers.group_offsets(group)
        if not committed:
            raise UsageError(f"group {group} has no offsets at {source.bootstrap}")
        topics = brokers.existing({each.topic for each in committed})
    copies = target.topics(known.copies)
    return move(
        committed, known, alias=source.alias,
        source_ids={name: each.topic_id for name, each in topics.items()},
        copy_ids={name: each.topic_id for name, each in copies.items()},
    )  # fmt: skip


def _telling(page: MirrorPage, *, as_json: bool) -> Telling:
    def say(document: dict[str, Any], line: str) -> None:
        typer.echo(json.dumps(document) if as_json else line, err=not as_json)
        sys.stdout.flush()

    def sentence(text: str) -> None:
        say({"told": text}, text)
        page.sentence(text)

    def progress(found: MirrorProgress) -> None:
        say({"progress": asdict(found)}, describe(found))
        page.progress(found)

    return Telling(sentence=sentence, progress=progress, gone=page.lost)


@contextlib.contextmanager
def _session(name: str, jars: Path | None) -> Iterator[tuple[SparkSession, StopSignals]]:
    spark = open_session(name, jars_directory=jars)
    try:
        # PySpark takes SIGINT when it starts; ours come behind it.
        yield spark, StopSignals()
    finally:
        spark.stop()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Ends the command with the error's line and exit code."""
    try:
        yield
    except (HighwaterError, PySparkException, Py4JError, ConnectionError) as error:
        typer.echo(f"highwater-spark: {one_line(error)}", err=True)
        raise typer.Exit(exit_code(error)) from error


if __name__ == "__main__":
    typer.run(command)
